"""The revocations in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from computerd.api.credentials import Revocation


@define(eq=False)
class Revocations:
    """Implements `computerd.api.credentials.Revocations`. Lives on the reactor's thread; asking costs three lookups."""

    _tokens: frozenset[str] = frozenset()
    _members: dict[str, float] = field(factory=dict)
    _everybody: float = float("-inf")
    _listed: tuple[Revocation, ...] = ()
    _watchers: list[Callable[[], None]] = field(factory=list)

    def revoked(self, token_id: str, member: str, issued_at: float) -> bool:
        """Whether a credential was revoked: by itself, with all of its member's, or with everybody's."""
        return (
            token_id in self._tokens
            or issued_at <= self._members.get(member, float("-inf"))
            or issued_at <= self._everybody
        )

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Has `changed` called after every change. Returns what ends that; calling it again does nothing."""

        # a list of wrappers, because the same function may watch twice
        def entry() -> None:
            changed()

        self._watchers.append(entry)

        def end() -> None:
            if entry in self._watchers:
                self._watchers.remove(entry)

        return end

    def replace(self, listed: Sequence[Revocation]) -> None:
        """Takes what the disk says now."""
        now = tuple(listed)
        if now == self._listed:
            return
        self._listed = now
        self._tokens = frozenset(item.token_id for item in now if item.token_id is not None)
        self._members = {}
        self._everybody = float("-inf")
        for item in now:
            if item.token_id is None and item.member is not None:
                self._members[item.member] = max(item.at, self._members.get(item.member, item.at))
            elif item.token_id is None:
                self._everybody = max(item.at, self._everybody)
        for changed in tuple(self._watchers):
            changed()
