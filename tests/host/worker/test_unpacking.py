"""Archives that land."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from computerd.host.worker import frames, kernel, removal
from computerd.host.worker.failures import Refused
from computerd.host.worker.removal import remove
from computerd.host.worker.staging import Staging, sweep
from tests.host.worker.case import WorkerCase
from tests.host.worker.program import tool
from tests.host.worker.tars import END, file, folder, hard_link, header, long_name, pax, symlink

SPARSE_FORMS = (
    ["--format=gnu"],
    *(["--format=pax", f"--sparse-version={version}"] for version in ("0.0", "0.1", "1.0")),
)


class UnpackingTests(WorkerCase):
    def test_what_lands(self) -> None:
        archive = folder(b"./") + folder(b"d/", 0o700) + file(b"d/f", b"content", 0o640) + symlink(b"d/l", b"../d/f")
        archive += (
            hard_link(b"h", b"./d/f")
            + pax((b"mtime", b"1234567890.5"))
            + file(b"t")
            + file(b"made/by/the/way", b"x")
            + END
        )
        found = self.worker.unpack("new", archive)
        self.assertEqual({"path": "new", "files": 5, "bytes": 8, "replaced": False}, found)
        wanted = {"d": "/", "d/f": b"content", "d/l": "-> ../d/f", "h": b"content", "t": b"", "made": "/", "made/by": "/", "made/by/the": "/",
                  "made/by/the/way": b"x"}  # fmt: skip
        self.assertEqual(wanted, self.tree(self.top / "new"))
        modes = {name: stat.S_IMODE((self.top / "new" / name).stat().st_mode) for name in ("", "d", "d/f", "made/by")}
        self.assertEqual({"": 0o755, "d": 0o700, "d/f": 0o640, "made/by": 0o755}, modes)
        self.assertEqual(1_234_567_890_500_000_000, (self.top / "new/t").stat().st_mtime_ns)
        self.assertEqual((self.top / "new/h").stat().st_ino, (self.top / "new/d/f").stat().st_ino)
        self.assertEqual(["new"], os.listdir(self.top))

    def test_umask(self) -> None:
        worker = self.begin(umask=0o077)
        worker.unpack("new", folder(b"d", 0o777) + file(b"d/f", b"", 0o666) + file(b"e/f") + END)
        modes = [stat.S_IMODE((self.top / name).stat().st_mode) for name in ("new", "new/d", "new/d/f", "new/e")]
        self.assertEqual([0o700, 0o700, 0o600, 0o700], modes)

    def test_folders_that_keep_their_owner_out(self) -> None:
        """Their modes and times come last."""
        archive = (
            folder(b".", 0o500)
            + pax((b"mtime", b"99.25"))
            + folder(b"d", 0o000)
            + folder(b"d/e", 0o100)
            + file(b"d/e/f", b"x")
            + END
        )
        self.worker.unpack("new", archive)
        self.assertEqual([0o500, 0o000], [stat.S_IMODE((self.top / name).stat().st_mode) for name in ("new", "new/d")])
        self.assertEqual(99_250_000_000, (self.top / "new/d").stat().st_mtime_ns)
        self.worker.unpack("new", file(b"f") + END, replace=True)
        self.assertEqual(["new"], os.listdir(self.top))

    def test_paths(self) -> None:
        (self.top / "d").mkdir()
        (self.top / "in").symlink_to("d")
        (self.top / "out").symlink_to(self.outside)
        (self.top / "f").touch()
        os.mkdir(os.fsencode(self.top) + b"/\xff")
        archive = file(b"x", b"1") + END
        for given_path, lands in (
            ("d/new", "d/new"),
            ("in/other", "d/other"),
            ("%FE", "%FE"),
            ("%FF/%FE", "\udcff/\udcfe"),
        ):
            self.assertEqual(given_path, self.worker.unpack(given_path, archive)["path"])
            self.assertEqual(b"1", (self.top / lands / "x").read_bytes())
        for path in ("", "..", "/new", "out/new", "a//b", "../new", ".computerd-" + "0" * 32):
            self.fails("invalid_path", self.worker.unpack, path, archive)
        for path in ("nothing/new", "f/new"):
            self.fails("path_not_found", self.worker.unpack, path, archive)
        for path in ("d", "f", "in", "out", "%FF"):
            self.fails("path_exists", self.worker.ask, "unpack", path=path, replace=False, coding="identity")

    def test_replaced(self) -> None:
        """F5: a folder, a file, a link to either, a FIFO; what was there is gone, and what it named is not touched."""
        (self.top / "old/sub").mkdir(parents=True)
        (self.top / "old/sub/f").touch()
        (self.top / "file").write_text("x")
        os.link(self.outside / "secret", self.top / "hard")
        (self.top / "link").symlink_to(self.outside / "secret")
        (self.top / "dir").symlink_to(self.outside)
        os.mkfifo(self.top / "pipe")
        names = ["dir", "file", "hard", "link", "old", "pipe"]
        for name in names:
            found = self.worker.unpack(name, file(b"new", b"1") + END, replace=True)
            self.assertTrue(found["replaced"])
            self.assertEqual({"new": b"1"}, self.tree(self.top / name))
        self.assertEqual(names, sorted(os.listdir(self.top)))
        self.assertEqual({"secret": b"the secret"}, self.tree(self.outside))
        self.assertFalse(self.worker.unpack("fresh", END, replace=True)["replaced"])

    def test_taken_meanwhile(self) -> None:
        number = self.worker.begin("unpack", path="new", replace=False, coding="identity")
        self.worker.answer(number)
        (self.top / "new").mkdir()
        self.fails("path_exists", self.worker.upload, number, file(b"f") + END)
        self.assertEqual(({"new": "/"}, []), (self.tree(self.top), self.left()))

    def test_cancelled(self) -> None:
        number = self.worker.begin("unpack", path="new", replace=False, coding="identity")
        self.worker.answer(number)
        self.worker.send(number, frames.DATA, file(b"f", b"x" * 5000))
        self.worker.send(number, frames.CANCEL)
        self.fails("unavailable", self.worker.answer, number)
        self.assertEqual([], os.listdir(self.top))

    def test_the_disk_is_full(self) -> None:
        """F5, F12: nothing is left, and nearly full is full."""
        if os.geteuid() != 0:
            raise SkipTest("mounts a file system: run as root")
        (self.top / "small").mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "none", self.top / "small"], check=False, capture_output=True
        )
        if done.returncode:
            raise SkipTest("mounts a file system, and may not")
        self.addCleanup(lambda: subprocess.run(["umount", "-l", self.top / "small"], check=True))
        message = self.fails("unavailable", self.worker.unpack, "small/new", file(b"f", bytes(5 << 20)) + END)
        self.assertIn("disk is full", message)
        self.assertEqual([], os.listdir(self.top / "small"))
        (self.top / "small/fill").write_bytes(bytes((4 << 20) - 20480))
        message = self.fails(
            "unavailable", self.worker.ask, "unpack", path="small/new", replace=False, coding="identity"
        )
        self.assertIn("nearly full", message)

    def test_forms_of_tar(self) -> None:
        """What the system's tar writes, in each of its formats."""
        self.fill_outside()
        for form in ("gnu", "pax", "posix", "ustar", "v7", "oldgnu"):
            archive = subprocess.run(
                [tool("tar"), "-C", self.outside, f"--format={form}", "-c", "."], capture_output=True, check=True
            ).stdout
            self.worker.unpack(form, archive)
            self.assertEqual(self.tree(self.outside), self.tree(self.top / form))
            self.assertEqual(2, (self.top / form / "d/f").stat().st_nlink)

    def fill_outside(self) -> None:
        (self.outside / "d").mkdir()
        (self.outside / "d/f").write_bytes(b"content" * 1000)
        (self.outside / "l").symlink_to("d/f")
        os.link(self.outside / "d/f", self.outside / "same")

    def test_forms_of_sparse_files(self) -> None:
        """They stay sparse, whichever way tar wrote their holes, with few and with many."""
        with open(self.outside / "holes", "wb") as out:
            for place in range(1 << 16, 60 << 16, 1 << 17):
                out.seek(place)
                out.write(b"data")
            out.truncate(10 << 20)
        with open(self.outside / "hole", "wb") as out:
            out.truncate(1 << 20)
        for number, form in enumerate(SPARSE_FORMS):
            command = [tool("tar"), "-C", str(self.outside), *form, "-S", "-c", "hole", "holes"]
            archive = subprocess.run(command, capture_output=True, check=True).stdout
            self.assertLess(len(archive), 300_000)
            self.worker.unpack(str(number), archive)
            for name in ("hole", "holes"):
                self.assertEqual((self.outside / name).read_bytes(), (self.top / str(number) / name).read_bytes())
            self.assertLess((self.top / str(number) / "holes").stat().st_blocks * 512, 1 << 20)

    def test_names_in_old_ways(self) -> None:
        archive = file(b"f", b"1") + header(b"g", prefix=b"p" * 150) + long_name(b"n" * 250) + file(b"x")
        archive += (
            long_name(b"t" * 150, b"K")
            + symlink(b"l", b"x")
            + header(b"old/", b"0")
            + header(b"v7", b"\0", magic=bytes(8))
        )
        archive += header(b"Label", b"V") + pax((b"comment", b"c"), kind=b"g") + header(b"cont", b"7") + END
        self.worker.unpack("new", archive)
        wanted = {
            "f": b"1",
            "p" * 150: "/",
            "p" * 150 + "/g": b"",
            "n" * 250: b"",
            "l": "-> " + "t" * 150,
            "old": "/",
            "v7": b"",
            "cont": b"",
        }
        self.assertEqual(wanted, self.tree(self.top / "new"))

    def test_numbers_without_an_end(self) -> None:
        """As some old tars write them where the digits fill the field."""
        full = header(b"f", size=b"000000000002")
        block = full[:100] + b"00100640" + full[108:148] + b" " * 8 + full[156:]
        block = block[:148] + b"%06o\0 " % sum(block) + block[156:]
        self.worker.unpack("new", block + b"ab".ljust(512, b"\0") + END)
        self.assertEqual({"f": b"ab"}, self.tree(self.top / "new"))
        self.assertEqual(0o640, stat.S_IMODE((self.top / "new/f").stat().st_mode))

    def test_what_a_pax_header_takes_back(self) -> None:
        """An empty value takes back what was said before, for all entries too."""
        everywhere = pax((b"mtime", b"5"), (b"path", b"wrong"), kind=b"g")
        empty = pax((b"mtime", b""), (b"path", b""), (b"size", b""), (b"linkpath", b""))
        self.worker.unpack("new", everywhere + empty + file(b"f", b"1") + END)
        self.assertEqual({"f": b"1"}, self.tree(self.top / "new"))
        self.assertNotEqual(5, (self.top / "new/f").stat().st_mtime)

    def test_links_through_what_is_not_there(self) -> None:
        """F7: what is put there later could make them lead out."""
        for target in (b"y/x/../../..", b"y/../z"):
            message = self.fails("invalid_archive", self.worker.unpack, "new", symlink(b"l", target) + END)
            self.assertIn("leads", message)
        self.worker.unpack("new", folder(b"y") + file(b"z") + symlink(b"l", b"y/../z") + END)

    def test_links_that_stay_inside(self) -> None:
        archive = (
            folder(b"a/b/c")
            + symlink(b"a/b/up", b"../..")
            + symlink(b"a/x", b"b/c/../..")
            + symlink(b"dangling", b"not/there")
        )
        archive += symlink(b"self", b".") + symlink(b"loop", b"loop") + END
        self.assertEqual(5, self.worker.unpack("new", archive)["files"])

    def test_times_before_and_far_after(self) -> None:
        for text, wanted in (
            (b"-1.5", -1_500_000_000),
            (b"0", 0),
            (b"4102444800.000000001", 4_102_444_800_000_000_001),
        ):
            self.worker.unpack("new", pax((b"mtime", text)) + file(b"f") + END, replace=True)
            self.assertEqual(wanted, (self.top / "new/f").stat().st_mtime_ns)
        self.worker.unpack("new", header(b"f", mtime=b"\xff" * 11 + b"\xfe") + END, replace=True)
        self.assertEqual(-2, (self.top / "new/f").stat().st_mtime)

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def test_what_tarfile_writes(self, data: st.DataObject) -> None:
        names = st.text(st.characters(exclude_characters="/\0", codec="utf-8"), min_size=1, max_size=40).filter(
            lambda name: name not in (".", "..") and len(name.encode()) <= 255
        )
        entries: dict[str, Any] = data.draw(
            st.dictionaries(names, st.one_of(st.binary(max_size=2000), names, st.none()), max_size=6)
        )
        form = data.draw(st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]))
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as archive:
            for name, content in entries.items():
                info = tarfile.TarInfo(name)
                info.mtime = 1_234_567_890
                if content is None:
                    info.type = tarfile.DIRTYPE
                elif isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                else:
                    info.size = len(content)
                archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
        self.worker.unpack("new", out.getvalue(), replace=True)
        wanted = {
            name: "/" if content is None else f"-> {content}" if isinstance(content, str) else content
            for name, content in entries.items()
        }
        self.assertEqual(wanted, self.tree(self.top / "new"))
        with tarfile.open(fileobj=io.BytesIO(self.worker.pack("new"))) as again:
            self.assertEqual(sorted(entries), sorted(again.getnames()))

    @settings(max_examples=150, deadline=None)
    @given(data=st.data())
    def test_any_damage(self, data: st.DataObject) -> None:
        """F7: whatever a byte of it is changed to, it lands or is refused, and the worker goes on."""
        whole = bytearray(
            folder(b"d")
            + pax((b"path", b"d/f"), (b"mtime", b"5.5"))
            + file(b"x", b"content")
            + symlink(b"l", b"d")
            + END
        )
        for _ in range(data.draw(st.integers(1, 3))):
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
        try:
            self.worker.unpack("new", bytes(whole), replace=True)
        except Exception as error:
            self.assertIn(getattr(error, "code", repr(error)), ("invalid_archive", "too_large"))
        self.assertEqual([], self.left())


class StagingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.top = Path(self.mktemp()).absolute()
        self.top.mkdir()
        self.folder = os.open(self.top, os.O_RDONLY)
        self.addCleanup(os.close, self.folder)

    def test_leftovers(self) -> None:
        """F5: those of dead workers that are old enough; no other name, nothing that is in use, and no link is followed."""
        (self.top / "kept").mkdir()
        (self.top / "kept/f").touch()
        (self.top / (".computerd-" + "a" * 32)).symlink_to("kept")
        (self.top / (".computerd-" + "b" * 32)).mkdir()
        (self.top / (".computerd-" + "b" * 32) / "l").symlink_to("../kept")
        (self.top / (".computerd-" + "C" * 32)).mkdir()
        (self.top / ".computerd-settings").touch()
        used = Staging(self.folder)
        sweep(self.folder, lambda: None)
        self.assertEqual(6, len(os.listdir(self.top)))
        sweep(self.folder, lambda: None, age=0.0)
        self.assertEqual(4, len(os.listdir(self.top)))
        self.assertTrue((self.top / "kept/f").exists())
        used.close()
        sweep(self.folder, lambda: None, age=0.0)
        self.assertEqual({"kept", ".computerd-settings", ".computerd-" + "C" * 32}, set(os.listdir(self.top)))

    def test_where_names_cant_be_swapped(self) -> None:
        """On a file system without the flags of renameat2."""

        def never(*_: object) -> None:
            raise OSError(errno.EINVAL, "invalid")

        self.patch(kernel, "rename", never)
        for replace in (False, True):
            place = Staging(self.folder)
            self.assertEqual(replace, place.land(b"new", replace))
            place.remove(lambda: None)
            place.close()
        place = Staging(self.folder)
        with self.assertRaises(Refused):
            place.land(b"new", False)
        place.remove(lambda: None)
        place.close()
        self.assertEqual(["new"], os.listdir(self.top))

    def test_removed_whatever_it_is(self) -> None:
        deep = self.top / "d"
        for name in ("a/b/c", "x"):
            (deep / name).mkdir(parents=True)
        (deep / "a/f").touch()
        (deep / "l").symlink_to("..")
        os.chmod(deep / "a/b", 0)
        os.chmod(deep, 0o100)
        self.assertTrue(remove(self.folder, b"d", lambda: None))
        self.assertTrue(remove(self.folder, b"nothing", lambda: None))
        self.assertEqual([], os.listdir(self.top))

    def test_more_names_than_are_held(self) -> None:
        self.patch(removal, "_BATCH", 10)
        (self.top / "d").mkdir()
        for number in range(95):
            (self.top / "d" / str(number)).touch() if number % 9 else (self.top / "d" / str(number)).mkdir()
        self.assertTrue(remove(self.folder, b"d", lambda: None))

    def test_stopped(self) -> None:
        (self.top / "d/e").mkdir(parents=True)

        def stop() -> None:
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            remove(self.folder, b"d", stop)
        shutil.rmtree(self.top / "d")


class SpeedTests(WorkerCase):
    def test_memory_is_flat(self) -> None:
        """F8: 100,000 entries and 300 MiB cost the worker no more than 64 MiB."""
        number = self.worker.begin("unpack", path="new", replace=False, coding="identity")
        self.worker.answer(number)
        archive = header(b"big", size=300 << 20) + bytes(300 << 20) + END
        began = time.monotonic()
        self.worker.upload(number, archive)
        list(self.worker.pack("new")[:1])
        self.assertLess(time.monotonic() - began, 60)
        status = Path(f"/proc/{self.worker.pid}/status").read_text()
        self.assertLess(int(status.partition("VmHWM:")[2].split()[0]), 64_000)
