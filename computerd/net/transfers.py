"""The files and archives that are on their way over HTTP: how many of each member's, and whose credential has ended meanwhile."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from computerd.contract import limits
from computerd.net.credentials import Verified
from computerd.net.limited import Limited
from computerd.net.tally import Tally


@define(eq=False)
class Transfer:
    """One that is on its way, or will soon be.

    Attributes:
        verified: The credential that it was begun with.
        stop: Called once to end it early: with what is wrong with the credential, or None when the server stops.
    """

    verified: Verified
    stop: Callable[[str | None], None]


@define(eq=False)
class Transfers:
    """All of them.

    Attributes:
        tally: Counts them.
    """

    tally: Tally
    _members: dict[str, dict[Transfer, None]] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return sum(map(len, self._members.values()))

    def begin(self, verified: Verified, stop: Callable[[str | None], None]) -> Transfer:
        """One more. `over` is to be called when it has ended, however it did.

        Raises:
            Limited: The member has `limits.MAX_TRANSFERS_PER_MEMBER` already.
        """
        same = self._members.get(verified.caller.member.id, {})
        if len(same) >= limits.MAX_TRANSFERS_PER_MEMBER:
            raise Limited(
                "transfers",
                f"You have {limits.MAX_TRANSFERS_PER_MEMBER} files or archives on their way: let one of them end.",
                retry_after_ms=1000,
            )
        transfer = Transfer(verified, stop)
        same[transfer] = None
        self._members[verified.caller.member.id] = same
        self.tally.transfers += 1
        return transfer

    def over(self, transfer: Transfer) -> None:
        """It has ended. Harmless the second time."""
        member = transfer.verified.caller.member.id
        same = self._members.get(member, {})
        if transfer in same:
            self.tally.transfers -= 1
            del same[transfer]
        if not same:
            self._members.pop(member, None)

    def check(self, problem: Callable[[Verified], str | None]) -> None:
        """Ends those whose credential no longer counts."""
        for transfer in self._all():
            why = problem(transfer.verified)
            if why is not None:
                transfer.stop(why)

    def stop_all(self) -> None:
        """Ends all, because the server does."""
        for transfer in self._all():
            transfer.stop(None)

    def _all(self) -> list[Transfer]:
        return [transfer for same in self._members.values() for transfer in same]
