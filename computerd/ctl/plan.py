"""A plan: changes in order, shown or made, each recorded as soon as it is made, so that a plan that broke off can be taken back too."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import frozen

from computerd.ctl.changes import Change, Folder, packed, unpacked, write
from computerd.ctl.errors import CommandError


@frozen
class Plan:
    """Changes to this host.

    Attributes:
        record: The file that says what was made. Its folder is made first, by the plan itself.
        changes: In the order in which they are made.
        say: Takes lines for the person.
    """

    record: Path
    changes: Sequence[Change]
    say: Callable[[str], None]

    def carry_out(self, *, dry_run: bool) -> bool:
        """Makes what is missing, or only shows it.

        Returns:
            Whether anything was, or would be, changed.

        Raises:
            CommandError: A change failed. Those before it are made and recorded.
        """
        missing = [change for change in self.changes if change.missing()]
        unrecorded: list[Change] = []
        for change in missing:
            if dry_run:
                self.say(f"would: {change.will()}")
                continue
            self.say(change.will())
            unrecorded.append(_made(change))
            if self.record.parent.is_dir():
                self.append(unrecorded)
                unrecorded = []
        return bool(missing)

    def take_back(self, *, dry_run: bool) -> bool:
        """Takes back what the record says, the last first, or only shows it.

        Returns:
            Whether there was anything to take back.
        """
        made = self.recorded()
        for position in range(len(made) - 1, -1, -1):
            change = made[position]
            self.say(f"would: {change.will_undo()}" if dry_run else change.will_undo())
            if not dry_run:
                self._take_back(change, made[:position], made[: position + 1])
        return bool(made)

    def _take_back(self, change: Change, left: Sequence[Change], with_it: Sequence[Change]) -> None:
        """Takes one change back; when that fails, the record still has it."""
        holds_record = isinstance(change, Folder) and Path(change.path) in self.record.parents
        self.keep([] if holds_record else left)
        try:
            kept = change.undo()
        except OSError as problem:
            self.keep(with_it)
            raise CommandError(f"{problem.filename}: {problem.strerror}{_hint()}") from None
        except CommandError:
            self.keep(with_it)
            raise
        if kept is not None:
            self.say(kept)

    def recorded(self) -> list[Change]:
        """What was made and not yet taken back."""
        try:
            rows = json.loads(self.record.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        except PermissionError:
            raise CommandError(f"{self.record} can't be read: run this as root") from None
        except ValueError:
            raise CommandError(f"{self.record} is damaged: nothing was taken back") from None
        return [unpacked(row) for row in rows]

    def append(self, changes: Sequence[Change]) -> None:
        """Adds to the record."""
        self.keep([*self.recorded(), *changes])

    def keep(self, changes: Sequence[Change]) -> None:
        """Writes the record; an empty one goes away."""
        if changes:
            write(self.record, json.dumps([packed(change) for change in changes], indent=1) + "\n", 0o600)
        else:
            self.record.unlink(missing_ok=True)


def _made(change: Change) -> Change:
    try:
        return change.make()
    except OSError as problem:
        raise CommandError(f"{problem.filename or change.will()}: {problem.strerror}{_hint()}") from None


def _hint() -> str:
    return "" if os.geteuid() == 0 else " (run this as root)"
