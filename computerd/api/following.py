"""`sessions.attach`, `sessions.detach` and `sessions.ack`.

The answer to an attach precedes its first event: the follower is made with the answer, so that nothing is missed, and starts in the reactor's
next turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import define
from msgspec import UNSET

from computerd.api import access
from computerd.api.caller import Caller
from computerd.api.connection import Connection
from computerd.contract import objects, results
from computerd.contract.access import PARAM_SCOPES
from computerd.contract.errors import ApiError, Code
from computerd.contract.params import Attach, OfSession
from computerd.contract.rules import check_attach
from computerd.session.lifecycle import Lifecycle
from computerd.session.port import Record
from computerd.session.sessions import Sessions

_EMPTY: Final = results.Empty()


@define(eq=False)
class Following:
    """The work of the methods.

    Attributes:
        soon: Calls a function in the reactor's next turn: after the answer, which is sent in this one.
    """

    sessions: Sessions
    lifecycle: Lifecycle
    soon: Callable[[Callable[[], None]], object]

    async def attach(self, params: Attach, caller: Caller, connection: Connection) -> results.Attached:
        """Follows a session on this connection. Attaching it again replaces the first attach."""
        read_only = params.read_only is True
        check_attach(params)
        if params.resume is True:
            access.require(PARAM_SCOPES["sessions.attach"]["resume"], caller)
        record = await self.sessions.record(params.session_id)
        connection.attachments.check_room(record.id)
        if params.resume is True:
            await self.lifecycle.resume(record.id, caller.actor, None)
            # more may have been committed together with this: what is followed begins after the newest that was told here
            record = await self.sessions.record(record.id)
        if connection.attachments.closed:
            raise ApiError(Code.UNAVAILABLE, "The connection has ended.")
        # others may have been attached meanwhile
        connection.attachments.check_room(record.id)
        self._follow(record, params, connection, read_only=read_only)
        return results.Attached(
            session=self.sessions.snapshot(record),
            log_epoch=self.sessions.journal.log_epoch,
            epoch_start_seq=record.first_seq,
            capabilities=_capabilities(),
            earlier_turns=None if params.tail_turns is UNSET else 0,
            timing=objects.Timing(server_us=0),
        )

    async def detach(self, params: OfSession, caller: Caller, connection: Connection) -> results.Empty:
        """Follows a session no more on this connection. One that is not attached is no error."""
        connection.attachments.detach(params.session_id)
        return _EMPTY

    def _follow(self, record: Record, params: Attach, connection: Connection, *, read_only: bool) -> None:
        after: int | None = None
        if params.after is not UNSET:
            after = params.after
        elif params.tail_turns is not UNSET:
            # without an agent there are no turns, and the tail of the last so many is everything
            after = 0
        attachments = connection.attachments
        follower = self.sessions.follow(
            record,
            after,
            connection.outbox,
            lambda: attachments.gone(record.id, follower),
            connection.caller.member.id,
        )
        attachments.put(record.id, follower, read_only=read_only)
        self.soon(follower.start)


def _capabilities() -> objects.Capabilities:
    """What a session can do here: without an agent, terminals and files."""
    return objects.Capabilities(models=[], modes=[], features=["terminal", "workspace"])
