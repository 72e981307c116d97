"""The fake daemon's sessions and their events. Params are checked by the contract itself, so what the daemon would refuse is refused here.

What goes wrong goes wrong on demand: events that come twice or out of order, are forgotten, or belong to another epoch.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import msgspec
from attrs import define, field

from computerd.contract import params
from computerd.contract.decoding import decode, decode_body, decode_query
from computerd.contract.errors import ApiError, Code

EPOCH = "le_{:012d}"


def session(number: int, owner: str = "me", *, archived: bool = False) -> dict[str, Any]:
    """A session as the API shows it."""
    return {
        "id": f"cs_{number:016d}",
        "title": f"session {number}",
        "status": "idle",
        "archived": archived,
        "owner": {"id": owner, "name": owner.title(), "email": None},
        "origin": {"type": "opc", "client": "opc/1.0", "slack": None},
        "settings": {"model": None, "effort": None, "mode": None, "speed": None},
        "metadata": {},
        "activeTurnId": None,
        "queued": [],
        "asks": [],
        "subagents": [],
        "lastTurn": None,
        "lastText": None,
        "context": {"usedTokens": None, "windowTokens": None},
        "lastSeq": 0,
        "logEpoch": EPOCH.format(1),
        "epochStartSeq": 1,
        "createdAt": f"2026-11-13T09:30:{number:02d}.000Z",
        "lastActiveAt": "2026-11-13T10:00:00.000Z",
        "syncedAt": "2026-11-13T10:00:00.000Z",
        "urls": {"dashboard": None},
    }


def _wire(struct: Any) -> dict[str, Any]:
    """The params of a decoded Struct that were given, as on the wire."""
    told: dict[str, Any] = msgspec.to_builtins(struct)
    return told


@define(eq=False)
class Journal:
    """Of all sessions."""

    sessions: list[dict[str, Any]]
    events: dict[str, list[dict[str, Any]]] = field(factory=dict)
    answers: dict[tuple[str, str], tuple[dict[str, Any], dict[str, Any]]] = field(factory=dict)
    keys: list[str] = field(factory=list)
    changes: list[dict[str, Any]] = field(factory=list)
    """Those that were carried out."""
    epochs: int = 1
    holes: set[int] = field(factory=set)
    """Events that are never told, against all promises."""

    def find(self, session_id: str) -> dict[str, Any]:
        for found in self.sessions:
            if found["id"] == session_id:
                return found
        raise ApiError(Code.SESSION_NOT_FOUND, "There is no such session; list the sessions to see which there are.")

    def append(self, session_id: str, kind: str, data: dict[str, Any], **more: Any) -> dict[str, Any]:
        """One event more."""
        found = self.find(session_id)
        found["lastSeq"] += 1
        event = {
            "id": f"ev_{found['lastSeq']:016d}",
            "seq": found["lastSeq"],
            "createdAt": f"2026-11-13T09:30:00.{found['lastSeq'] % 1000:03d}Z",
            "sessionId": session_id,
            "turnId": None,
            "actor": {"id": "me", "name": "Me", "via": "opc", "client": None},
            "type": kind,
            "data": data,
        } | more
        self.events.setdefault(session_id, []).append(event)
        return event

    def after(self, session_id: str, seq: int) -> list[dict[str, Any]]:
        """What comes after an event."""
        return [
            event for event in self.events.get(session_id, []) if event["seq"] > seq and event["seq"] not in self.holes
        ]

    def forget(self, session_id: str, last: int) -> None:
        """Retention."""
        self.events[session_id] = self.after(session_id, last)
        found = self.find(session_id)
        found["epochStartSeq"] = max(found["epochStartSeq"], last + 1)

    def renew(self, session_id: str, keep: int) -> None:
        """Another epoch, in which only the first few events are still there."""
        self.epochs += 1
        self.events[session_id] = [event for event in self.events.get(session_id, []) if event["seq"] <= keep]
        self.find(session_id).update(logEpoch=EPOCH.format(self.epochs), epochStartSeq=keep + 1, lastSeq=keep)

    def check_after(self, found: dict[str, Any], after: int) -> None:
        if after > found["lastSeq"]:
            raise ApiError(Code.CURSOR_AHEAD, f"The session's last event is {found['lastSeq']}.", field="after")

    # --- the methods

    def get(self, given: dict[str, Any]) -> dict[str, Any]:
        wanted = decode(params.GetSession, given)
        return {"session": self.find(wanted.session_id)}

    def attach(self, given: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """The answer, and after which event it is."""
        wanted = _wire(decode(params.Attach, given))
        found = self.find(wanted["sessionId"])
        after = wanted.get("after", found["lastSeq"])
        self.check_after(found, after)
        answer = {
            "session": found,
            "logEpoch": found["logEpoch"],
            "epochStartSeq": found["epochStartSeq"],
            "capabilities": {"models": [], "modes": [], "features": ["terminal"]},
            "earlierTurns": None,
            "timing": {"serverUs": 1},
        }
        return answer, after

    def http(self, verb: str, path: str, query: list[tuple[str, str]], body: Any) -> dict[str, Any] | None:
        """The answer to a request under `/sessions/`; None: there is no such route."""
        session_id, _, what = path.removeprefix("/sessions/").partition("/")
        of = {"sessionId": unquote(session_id)}
        if (verb, what) == ("GET", ""):
            return self.get(_wire(decode_query(params.GetSession, query, of)))
        if (verb, what) == ("GET", "events"):
            return self.list(_wire(decode_query(params.ListEvents, query, of)))
        if (verb, what) == ("PATCH", ""):
            return self.once("sessions.update", _wire(decode_body(params.UpdateSession, body, of, None)))
        if (verb, what) == ("POST", "suspend"):
            return self.once("sessions.suspend", _wire(decode_body(params.Suspend, body, of, None)))
        if (verb, what) == ("POST", "resume"):
            return self.once("sessions.resume", _wire(decode_body(params.Resume, body, of, None)))
        return None

    def list(self, wanted: dict[str, Any]) -> dict[str, Any]:
        found = self.find(wanted["sessionId"])
        after, limit, types = wanted.get("after", 0), wanted.get("limit", 100), wanted.get("types")
        self.check_after(found, after)
        events = [e for e in self.after(found["id"], after) if types is None or e["type"] in types]
        return {
            "events": events[:limit],
            "earlierTurns": None,
            "lastSeq": found["lastSeq"],
            "hasMore": len(events) > limit,
        }

    def once(self, method: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Carries a change out, unless its key says that this has been done."""
        key = wanted.pop("idempotencyKey")
        self.keys.append(key)
        if (method, key) in self.answers:
            before, answer = self.answers[method, key]
            if before != wanted:
                raise ApiError(Code.IDEMPOTENCY_CONFLICT, "The key came with other params.")
            return answer
        found = self.find(wanted["sessionId"])
        self.changes.append({"method": method, **wanted})
        self.change(method, found, {name: value for name, value in wanted.items() if name != "sessionId"})
        fresh: dict[str, Any] = json.loads(json.dumps({"session": found, "seq": found["lastSeq"]}))
        self.answers[method, key] = wanted, fresh
        return fresh

    def change(self, method: str, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        if method == "sessions.update":
            if wanted.get("model") == "none-such":
                raise ApiError(Code.UNSUPPORTED_MODEL, "There is no such model.", field="model")
            for name, value in wanted.items():
                (found["settings"] if name in found["settings"] else found)[name] = value
            self.append(
                found["id"], "session.updated", {"changes": {n: {"from": None, "to": v} for n, v in wanted.items()}}
            )
            return
        status = "suspended" if method == "sessions.suspend" else "idle"
        if not (wanted.get("ifIdle") and found["status"] != "idle"):
            self.append(found["id"], "session.status_changed", {"from": found["status"], "to": status})
            found["status"] = status
