"""Who a member's processes run as. Users are looked up here, before any fork: a look-up between fork and exec can deadlock."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import define, field, frozen

from computerd.contract.errors import ApiError, Code
from computerd.host.settings import HostSettings

_FRESH_SECONDS: Final = 10.0
"""For which an answer is kept: the directory may be a slow LDAP server, and a change must not wait for a restart."""
_FIRST_PERSON: Final = 1000
"""UID_MIN of login.defs(5) on every distribution that matters: accounts below it belong to the system."""
_DAY: Final = 86400.0
# fmt: off
ROOT_EQUIVALENT: Final = frozenset({
    "root", "disk", "kmem", "mem", "shadow", "sudo", "wheel", "admin",
    "docker", "lxd", "lxc", "incus", "incus-admin", "libvirt", "microk8s",
})
# fmt: on
"""Groups whose members can make themselves root: through a device, a daemon that obeys them, or sudo's usual configuration."""


@frozen
class Account:
    """A Unix user, looked up.

    Attributes:
        groups: All of his groups, his first included.
        shell: From the password database; `/bin/sh` when the field is empty (passwd(5)).
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def _refuse(message: str) -> ApiError:
    return ApiError(Code.COMPUTER_NOT_SET_UP, message)


def _from(entry: pwd.struct_passwd, groups: tuple[int, ...]) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, groups, entry.pw_dir or "/", entry.pw_shell or "/bin/sh")


def _can_look_up() -> None:
    """A look-up that gets no descriptor finds nobody, or a user without groups, and doesn't say why."""
    try:
        os.close(os.open("/", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise ApiError(
            Code.COMPUTER_UNAVAILABLE, f"The Unix user could not be looked up: {error.strerror}. Try again."
        ) from None


def invoking_user() -> Account:
    """The user that this process runs as: all that a daemon without root power has. A uid without an account gets a name of digits."""
    uid, gid = os.getuid(), os.getgid()
    try:
        return _from(pwd.getpwuid(uid), tuple(os.getgroups()))
    except KeyError:
        return Account(str(uid), uid, gid, tuple(os.getgroups()), "/", "/bin/sh")


def expired(name: str, now: float, shadow: Path = Path("/etc/shadow")) -> bool:
    """Whether the account's last day is over: field 8 of shadow(5), in days since the epoch. What can't be read hasn't."""
    try:
        lines = shadow.read_bytes().splitlines()
    except OSError:
        return False
    for line in lines:
        fields = line.split(b":")
        if fields[0] == os.fsencode(name) and len(fields) > 7 and fields[7].isdigit():
            return int(fields[7]) * _DAY <= now
    return False


@define
class Accounts:
    """Finds and checks the users of members.

    Attributes:
        privileged: The daemon is root and chooses; otherwise everything runs as itself.
        clock: Monotonic seconds.
        now: Seconds since the epoch.
    """

    settings: HostSettings
    privileged: bool
    clock: Callable[[], float]
    now: Callable[[], float]
    _known: dict[str, tuple[float, Account]] = field(factory=dict, init=False)

    def of(self, owner: str) -> Account:
        """The user that `owner`'s processes run as.

        Raises:
            ApiError: `computer_not_set_up`, with what to do about it.
        """
        if not self.privileged:
            return invoking_user()
        name = self.settings.users.get(owner, self.settings.agent_user)
        if not name:
            raise _refuse(
                'No Unix user is set for agents on this computer. Run "computerctl setup" there, or set agent.user.'
            )
        until, account = self._known.get(name, (0.0, None))
        if account is None or self.clock() >= until:
            account = self._look_up(name)
            self._known[name] = (self.clock() + _FRESH_SECONDS, account)
        return account

    def _look_up(self, name: str) -> Account:
        self._known.pop(name, None)
        _can_look_up()
        try:
            entry = pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise _refuse(
                f'The Unix user "{name}" does not exist on this computer. Create it, or set another as agent.user.'
            ) from None
        account = _from(entry, tuple(dict.fromkeys(os.getgrouplist(name, entry.pw_gid))))
        self._check(account)
        return account

    def _check(self, account: Account) -> None:
        name, uid = account.name, account.uid
        if uid == 0 or account.gid == 0 or 0 in account.groups or uid >= 2**32 - 1:
            raise _refuse(f'The Unix user "{name}" is root or in root\'s group. Set an ordinary user as agent.user.')
        if uid < _FIRST_PERSON and not self.settings.allow_system_user:
            raise _refuse(
                f'The Unix user "{name}" is a system account (uid {uid}). Set an ordinary user as agent.user, '
                "or set agent.allow_system_user."
            )
        if expired(name, self.now()):
            raise _refuse(
                f'The account of the Unix user "{name}" has expired. Renew it with "chage -E -1 {name}", or set another.'
            )
        for gid in account.groups:
            self._check_group(name, gid)

    def _check_group(self, name: str, gid: int) -> None:
        try:
            group = grp.getgrgid(gid).gr_name
        except KeyError:
            return
        if group in ROOT_EQUIVALENT - self.settings.allow_groups:
            raise _refuse(
                f'The Unix user "{name}" is in the group "{group}", which is as good as root. '
                "Take the user out of it, or name the group in agent.allow_groups."
            )
