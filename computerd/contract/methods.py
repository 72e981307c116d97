"""The table of methods: name, HTTP route, params, result, and who may call it. Everything about the API derives from it.

Source: "Operations" and "WebSocket notifications" of the API schema; access from section 6 of the Computer API page.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen
from msgspec import Struct

from computerd.contract import objects, params, results
from computerd.contract.access import Access


@frozen
class Route:
    """Where a method is served over HTTP.

    Attributes:
        verb: Such as GET.
        path: With `{name}` for each params field that the path carries, spelled as on the wire.
        body: The params field that the whole body becomes; None: the body's fields are the params' fields.
        status: Of the answer when it worked.
        aliases: Other paths that mean the same.
        takes: The media type of a body that is a stream of bytes; the params are in the query then. None: the body is JSON.
        gives: The media type of an answer that is a stream of bytes. None: it is JSON.
    """

    verb: str
    path: str
    body: str | None = None
    status: int = 200
    aliases: tuple[str, ...] = ()
    takes: str | None = None
    gives: str | None = None

    @property
    def in_query(self) -> bool:
        """Whether the params that the path does not carry are in the query."""
        return self.verb == "GET" or self.takes is not None

    @property
    def streams(self) -> bool:
        """Whether bytes are streamed, in or out."""
        return self.takes is not None or self.gives is not None


def _of_workspace(
    verb: str, name: str, *, status: int = 200, takes: str | None = None, gives: str | None = None
) -> Route:
    """A route to a session's files, which has two addresses: the API's and the relay's."""
    paths = (f"/sessions/{{sessionId}}/workspace/{name}", f"/files/{{sessionId}}/{name}")
    return Route(verb, paths[0], status=status, aliases=paths[1:], takes=takes, gives=gives)


TAR: Final = "application/x-tar"
"""The media type of an archive; IANA has none for it."""


@frozen
class Method:
    """One operation of the API.

    Attributes:
        socket: Whether it can be called over WebSocket.
        schema: Whether the published schema lists it.
    """

    name: str
    params: type[Struct]
    result: type[Struct]
    access: Access
    summary: str
    route: Route | None = None
    socket: bool = True
    schema: bool = True


METHODS: Final[tuple[Method, ...]] = (
    Method("sessions.attach", params.Attach, results.Attached, Access.READ, "Follow a session's events"),
    Method("sessions.detach", params.OfSession, results.Empty, Access.READ, "Stop following a session"),
    Method(
        "sessions.get",
        params.GetSession,
        results.OneSession,
        Access.READ,
        "A session as it is now",
        Route("GET", "/sessions/{sessionId}"),
    ),
    Method(
        "sessions.list",
        params.ListSessions,
        results.SessionList,
        Access.READ,
        "The sessions, newest first",
        Route("GET", "/sessions"),
        socket=False,
        schema=False,
    ),
    Method(
        "sessions.create",
        params.CreateSessionBody,
        results.SessionCreated,
        Access.WRITE,
        "A new session",
        Route("POST", "/sessions", status=201),
        socket=False,
    ),
    Method(
        "sessions.update",
        params.UpdateSession,
        results.SessionChanged,
        Access.WRITE,
        "Change a session's title, settings or metadata, or archive it",
        Route("PATCH", "/sessions/{sessionId}"),
    ),
    Method(
        "sessions.interrupt",
        params.Interrupt,
        results.SessionChanged,
        Access.WRITE,
        "Stop the turn that runs",
        Route("POST", "/sessions/{sessionId}/interrupt"),
    ),
    Method(
        "sessions.compact",
        params.Compact,
        results.TurnSent,
        Access.WRITE,
        "Shorten the agent's context",
        Route("POST", "/sessions/{sessionId}/compact"),
    ),
    Method(
        "sessions.suspend",
        params.Suspend,
        results.SessionChanged,
        Access.WRITE,
        "End what is left of a session's processes",
        Route("POST", "/sessions/{sessionId}/suspend"),
    ),
    Method(
        "sessions.resume",
        params.Resume,
        results.SessionChanged,
        Access.WRITE,
        "Make a suspended session ready again",
        Route("POST", "/sessions/{sessionId}/resume"),
    ),
    Method(
        "turns.send",
        params.SendTurn,
        results.TurnSent,
        Access.WRITE,
        "A message to the agent",
        Route("POST", "/sessions/{sessionId}/turns"),
    ),
    Method(
        "turns.get",
        params.GetTurn,
        results.OneTurn,
        Access.READ,
        "A turn, or wait for it to change",
        Route("GET", "/sessions/{sessionId}/turns/{turnId}"),
    ),
    Method(
        "turns.cancel",
        params.CancelTurn,
        results.TurnChanged,
        Access.WRITE,
        "Withdraw or stop a turn",
        Route("POST", "/sessions/{sessionId}/turns/{turnId}/cancel"),
    ),
    Method(
        "asks.list",
        params.ListAsks,
        results.AskList,
        Access.READ,
        "What the agent waits for",
        Route("GET", "/sessions/{sessionId}/asks"),
    ),
    Method(
        "asks.get",
        params.GetAsk,
        results.OneAsk,
        Access.READ,
        "One ask",
        Route("GET", "/sessions/{sessionId}/asks/{askId}"),
    ),
    Method(
        "asks.answer",
        params.AnswerAsk,
        results.AskChanged,
        Access.WRITE,
        "Answer an ask",
        Route("POST", "/sessions/{sessionId}/asks/{askId}/answer", body="answer"),
    ),
    Method(
        "asks.dismiss",
        params.DismissAsk,
        results.AskChanged,
        Access.WRITE,
        "Close an ask without an answer",
        Route("POST", "/sessions/{sessionId}/asks/{askId}/dismiss"),
    ),
    Method(
        "subagents.list",
        params.ListSubagents,
        results.SubagentList,
        Access.READ,
        "A session's subagents",
        Route("GET", "/sessions/{sessionId}/subagents"),
    ),
    Method(
        "subagents.get",
        params.GetSubagent,
        results.OneSubagent,
        Access.READ,
        "One subagent",
        Route("GET", "/sessions/{sessionId}/subagents/{subagentId}"),
    ),
    Method(
        "subagents.stop",
        params.StopSubagent,
        results.SubagentChanged,
        Access.WRITE,
        "Stop a subagent",
        Route("POST", "/sessions/{sessionId}/subagents/{subagentId}/stop"),
    ),
    Method(
        "events.list",
        params.ListEvents,
        results.EventList,
        Access.READ,
        "A session's journal",
        Route("GET", "/sessions/{sessionId}/events"),
    ),
    Method(
        "files.list",
        params.ListFiles,
        results.FileList,
        Access.FILES_READ,
        "What a folder of the workspace holds",
        _of_workspace("GET", "files"),
        socket=False,
        schema=False,
    ),
    Method(
        "files.read",
        params.ReadFile,
        results.Content,
        Access.FILES_READ,
        "The bytes of a file",
        _of_workspace("GET", "file", gives="*/*"),
        socket=False,
        schema=False,
    ),
    Method(
        "files.download",
        params.DownloadArchive,
        results.Content,
        Access.FILES_READ,
        "A file, or what a folder holds, as a tar archive",
        _of_workspace("GET", "archive", gives=TAR),
        socket=False,
        schema=False,
    ),
    Method(
        "files.upload",
        params.UploadArchive,
        results.ArchiveLanded,
        Access.FILES_WRITE,
        "A new folder with what a tar archive holds",
        _of_workspace("PUT", "archive", status=201, takes=TAR),
        socket=False,
        schema=False,
    ),
    Method(
        "terminals.open",
        params.OpenTerminal,
        results.TerminalOpened,
        Access.TERMINALS,
        "Start a shell or a command in the workspace",
    ),
    Method("terminals.resize", params.ResizeTerminal, results.Empty, Access.OWN_TERMINAL, "Set a terminal's size"),
    Method("terminals.eof", params.OfTerminal, results.Empty, Access.OWN_TERMINAL, "End a terminal's input"),
    Method("terminals.close", params.OfTerminal, results.Empty, Access.OWN_TERMINAL, "Hang a terminal up"),
    Method("ping", params.Nothing, results.Pong, Access.ANYONE, "Whether the server answers, and how fast"),
)

BY_NAME: Final[dict[str, Method]] = {method.name: method for method in METHODS}

CLIENT_NOTIFICATIONS: Final[dict[str, type[Struct]]] = {"sessions.ack": params.Ack, "telemetry": params.Telemetry}
SERVER_NOTIFICATIONS: Final[dict[str, type[Struct]]] = {
    "ready": results.Ready,
    "sessions.attached": results.SessionsAttached,
    "event": objects.Event,
    "delta": objects.Delta,
    "session.detached": results.SessionDetached,
    "terminal.exited": results.TerminalExited,
}
