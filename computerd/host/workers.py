"""The workers of all sessions: at most one each, while it is needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from computerd.contract.errors import ApiError, Code
from computerd.contract.identifiers import TERMINAL
from computerd.host.accounts import Account
from computerd.host.asking import Request, busy
from computerd.host.hired import Hired
from computerd.host.program import Program
from computerd.host.worker_life import Worker
from computerd.terminal.port import Start
from computerd.workspace.port import Place

_TERM: Final = "dumb"
MAX_WORKERS: Final = 64
"""At a time, some 9 MiB each."""
MAX_OWNERS: Final = 16
"""Of one member's sessions."""
_MANY: Final = 5
_WINDOW_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 10.0


class Employer(Protocol):
    """Who starts workers: the spawner."""

    def account(self, owner: str) -> Account:
        """The user that a member's processes run as. Raises ApiError."""

    def hire(self, start: Start) -> Deferred[Hired]:
        """Starts a worker. Fails with ApiError."""


@define(eq=False, repr=False)
class Failures:
    """Workers that ended as they should not.

    After five within a minute none is started for ten seconds, or a broken one would be started for each request, for ever.
    """

    _clock: Callable[[], float]
    _times: dict[str, deque[float]] = field(factory=dict, init=False)

    def note(self, session_id: str) -> None:
        """One more."""
        now = self._clock()
        self._times = {name: times for name, times in self._times.items() if times[-1] > now - _WINDOW_SECONDS}
        self._times.setdefault(session_id, deque(maxlen=_MANY)).append(now)

    def pause(self, session_id: str) -> float:
        """Seconds to wait before the next may start."""
        times = self._times.get(session_id)
        if times is None or len(times) < _MANY or times[-1] - times[0] > _WINDOW_SECONDS:
            return 0.0
        return max(0.0, times[-1] + _PAUSE_SECONDS - self._clock())


@define(eq=False, repr=False)
class Workers:
    """Starts them when they are asked.

    Attributes:
        program: What they run.
    """

    _reactor: IReactorTime
    _employer: Employer
    _random: Callable[[int], bytes]
    program: Callable[[], Program]
    _current: dict[str, Worker] = field(factory=dict, init=False)
    _failures: Failures = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._failures = Failures(self._reactor.seconds)

    def ask(self, place: Place, request: Request[Any]) -> None:
        """Puts a request to the session's worker, which is started if there is none. A refusal is the request's failure."""
        try:
            worker, new = self._of(place)
        except ApiError as error:
            request.broken(error)
            return
        worker.ask(request)
        if new:
            worker.begin()

    def _of(self, place: Place) -> tuple[Worker, bool]:
        account = self._employer.account(place.owner)
        worker = self._current.get(place.session_id)
        if worker is not None and worker.account != account:  # the configuration was changed
            worker.leave()
            worker = None
        if worker is not None:
            return worker, False
        pause = self._failures.pause(place.session_id)
        if pause > 0:
            raise ApiError(
                Code.COMPUTER_UNAVAILABLE,
                "The process that works on the session's files has ended again and again. Try again later.",
                retry_after_ms=round(pause * 1000),
            )
        self._make_room([worker for worker in self._current.values() if worker.owner == place.owner], MAX_OWNERS)
        self._make_room([*self._current.values()], MAX_WORKERS)
        worker = self._make(place, account)
        self._current[place.session_id] = worker
        return worker, True

    def _make_room(self, workers: list[Worker], most: int) -> None:
        """Ends the one that has been idle longest, when there are as many as may be. Raises ApiError when none is idle."""
        if len(workers) < most:
            return
        idle = [(since, worker) for worker in workers if (since := worker.idle_since) is not None]
        if not idle:
            raise busy()
        min(idle, key=lambda pair: pair[0])[1].leave()

    def _make(self, place: Place, account: Account) -> Worker:
        program = self.program()
        start = Start(place.session_id, TERMINAL.new(self._random), place.owner, program.command, _TERM, None)
        return Worker(
            self._reactor,
            place.session_id,
            place.owner,
            account,
            lambda: self._employer.hire(start),
            program.first,
            self._has_left,
        )

    def _has_left(self, worker: Worker, wrong: bool) -> None:
        if self._current.get(worker.session_id) is worker:
            del self._current[worker.session_id]
        if wrong:
            self._failures.note(worker.session_id)
