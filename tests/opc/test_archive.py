"""Archives: what is packed is what tarfile reads, what tarfile writes is what lands, and what means harm does none."""

from __future__ import annotations

import contextlib
import io
import os
import random
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from computerd.contract import limits
from computerd.opc import localtree, pack
from computerd.opc.failure import Failure
from computerd.opc.landing import Landing, stays
from computerd.opc.unpack import Archive


def pieces(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def land(data: bytes, top: Path, size: int = 1000) -> Landing:
    landed = Landing(str(top), lambda count: None)
    try:
        landed.take(Archive(pieces(data, size)))
    finally:
        landed.close()
    return landed


def packed(folder: Path) -> bytes:
    return b"".join(pack.pack(localtree.look(str(folder)).items, lambda count: None))


def described(top: Path) -> dict[bytes, object]:
    """All that is to be kept."""
    found: dict[bytes, object] = {}
    for folder, folders, files in os.walk(os.fsencode(top)):
        for name in folders + files:
            path = os.path.join(folder, name)
            looked = os.lstat(path)
            kind = stat.S_IFMT(looked.st_mode)
            if kind == stat.S_IFREG:
                held: object = Path(os.fsdecode(path)).read_bytes()
            else:
                held = os.readlink(path) if kind == stat.S_IFLNK else None
            mode = None if kind == stat.S_IFLNK else stat.S_IMODE(looked.st_mode)
            found[os.path.relpath(path, os.fsencode(top))] = (kind, held, mode, looked.st_mtime_ns)
    return found


def one(name: str, kind: bytes = tarfile.REGTYPE, body: bytes = b"", **more: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(body)
    for key, value in more.items():
        setattr(info, key, value)
    return info, body


def tar(*members: tuple[tarfile.TarInfo, bytes], style: int = tarfile.PAX_FORMAT) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=style) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return body.getvalue()


class Folders(SynchronousTestCase):
    def setUp(self) -> None:
        self.outside = Path(tempfile.mkdtemp(dir=self.mktemp_base()))
        self.top = self.outside / "top"
        self.top.mkdir()

    def mktemp_base(self) -> str:
        base = Path(self.mktemp())
        base.mkdir(parents=True)
        return str(base.resolve())

    def made(self) -> Path:
        """A folder with all that there is."""
        folder = self.outside / "made"
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "empty").mkdir(mode=0o750)
        (folder / "a" / "b" / ("n" * 120)).write_bytes(b"long")
        (folder / "ünï").write_text("x")
        (folder / os.fsdecode(b"\xff\xfe")).write_bytes(b"no utf-8")
        (folder / "big").write_bytes(random.Random(1).randbytes(700_001))
        (folder / "run").write_text("#!")
        (folder / "run").chmod(0o755)
        (folder / "link").symlink_to("a/b/" + "n" * 120)
        os.link(folder / "big", folder / "z-twin")
        os.utime(folder / "ünï", ns=(0, 1_234_567_890_123_456_789))
        os.utime(folder / "run", ns=(0, -1_500_000_000))
        os.utime(folder / "empty", ns=(0, 42_000_000_000))
        return folder


class PackTests(Folders):
    def test_tarfile_reads_it(self) -> None:
        made = self.made()
        (made / os.fsdecode(b"\xff\xfe")).unlink()  # tarfile takes hdrcharset's values for UTF-8
        with tarfile.open(fileobj=io.BytesIO(packed(made))) as archive:
            archive.extractall(self.top, filter="fully_trusted")
        self.assertEqual({name: held[:3] for name, held in described(self.top).items()}, {  # type: ignore[index]
            name: held[:3] for name, held in described(made).items()  # type: ignore[index]
        })  # fmt: skip
        self.assertEqual((self.top / "big").stat().st_nlink, 2)

    def test_it_comes_back_as_it_was(self) -> None:
        made = self.made()
        for size in (7, 512, 100_000_000):
            top = Path(tempfile.mkdtemp(dir=self.outside))
            landed = land(packed(made), top, size)
            self.assertEqual(described(top), described(made))
            self.assertEqual((landed.files, landed.refused), (7, []))
        self.assertEqual((top / "z-twin").stat().st_nlink, 2)

    def test_nothing_here_is_told_but_the_files(self) -> None:
        with tarfile.open(fileobj=io.BytesIO(packed(self.made()))) as archive:
            for member in archive:
                self.assertEqual((member.uid, member.gid, member.uname, member.gname), (0, 0, "", ""))
                self.assertEqual(member.mode & ~0o777, 0)

    def test_a_file_that_shrinks_ends_it(self) -> None:
        made = self.made()
        items = localtree.look(str(made)).items

        def counted(count: int) -> None:
            if count > 100_000:
                (made / "big").write_bytes(b"")

        stream = pack.pack(items, counted)
        with self.assertRaises(Failure) as caught:
            list(stream)
        self.assertIn("changed while it was read", caught.exception.message)

    def test_a_file_that_becomes_a_fifo_or_a_link_ends_it(self) -> None:
        made = self.made()
        items = localtree.look(str(made)).items
        (made / "run").unlink()
        os.mkfifo(made / "run")
        self.assertRaises(Failure, list, pack.pack(items, lambda count: None))
        (made / "run").unlink()
        (made / "run").symlink_to("/etc/passwd")
        self.assertRaises(Failure, list, pack.pack(items, lambda count: None))

    def test_limits(self) -> None:
        made = self.made()
        self.patch(limits, "MAX_ARCHIVE_ENTRIES", 3)
        with self.assertRaises(Failure) as caught:
            localtree.look(str(made))
        self.assertEqual(caught.exception.code, "too_large")
        self.patch(limits, "MAX_ARCHIVE_ENTRIES", 100)
        self.patch(limits, "MAX_ARCHIVE_BYTES", 700_000)
        self.assertRaises(Failure, localtree.look, str(made))

    def test_what_no_archive_takes_is_left_out(self) -> None:
        made = self.made()
        os.mkfifo(made / "a" / "fifo")
        self.assertEqual(localtree.look(str(made)).left_out, ["a/fifo"])


class LandingTests(Folders):
    def test_formats(self) -> None:
        for style in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT):
            top = Path(tempfile.mkdtemp(dir=self.outside))
            name = "d" * 80 + "/" + "f" * 90
            land(tar(one("./d", tarfile.DIRTYPE), one(f"./{name}", body=b"hello", mode=0o4777), style=style), top)
            self.assertEqual((top / name).read_bytes(), b"hello")
            self.assertEqual(stat.S_IMODE((top / name).stat().st_mode) & 0o7000, 0)

    def test_folders_that_nobody_may_enter(self) -> None:
        landed = land(
            tar(one(".", tarfile.DIRTYPE, mode=0o750), one("d", tarfile.DIRTYPE, mode=0), one("d/f", body=b"x")),
            self.top,
        )
        self.assertEqual((landed.files, stat.S_IMODE((self.top / "d").stat().st_mode)), (1, 0o700))
        self.assertEqual(stat.S_IMODE(self.top.stat().st_mode), 0o750)

    def test_gnu_sparse_files(self) -> None:
        table = b"2\n4096\n3\n1000000\n0\n".ljust(512, b"\0")
        info, body = one("GNUSparseFile.0/s", body=table + b"abc")
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "s",
            "GNU.sparse.realsize": "1000000",
        }
        land(tar((info, body), one("after", body=b"x")), self.top)
        found = (self.top / "s").read_bytes()
        self.assertEqual((len(found), found.rstrip(b"\0")), (1_000_000, bytes(4096) + b"abc"))
        self.assertLess((self.top / "s").stat().st_blocks * 512, 100_000)
        self.assertEqual((self.top / "after").read_bytes(), b"x")

    def test_what_means_harm(self) -> None:
        link, hard, folder = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
        up = self.outside / "up"
        up.mkdir()
        for members in (
            [one("/absolute", body=b"x")],
            [one("../beside", body=b"x")],
            [one("a/../../beside", body=b"x")],
            [one("l", link, linkname="."), one("l/f", body=b"x")],
            [one("l", link, linkname=str(up)), one("l/f", body=b"x"), one("l", body=b"")],
            [one("d", folder), one("d", body=b"x")],
            [one("f", body=b"x"), one("f", body=b"y")],
            [one("f", body=b"x"), one("f/g", body=b"y")],
            [one("h", hard, linkname="../top")],
            [one("h", hard, linkname="/etc/passwd")],
            [one("h", hard, linkname="nothing")],
            [one("l", link, linkname="x"), one("h", hard, linkname="l")],
            [one("d", folder), one("h", hard, linkname="d")],
            [one("h", hard, linkname="")],
            [one("fifo", tarfile.FIFOTYPE)],
            [one("device", tarfile.CHRTYPE, devmajor=1, devminor=3)],
            [one("", body=b"x")],
            [one(".", body=b"x")],
            [one("/".join("d" * 1100), body=b"x")],
        ):
            top = Path(tempfile.mkdtemp(dir=self.outside))
            data = tar(*members)
            self.assertRaises(Failure, land, data, top)
            self.assertEqual([path for path in self.outside.rglob("*") if path.name == "beside"], [])
            self.assertEqual(list(up.iterdir()), [])

    def test_links_that_lead_out_are_left_out(self) -> None:
        members = [
            one("d/e", tarfile.DIRTYPE),
            one("d/in", tarfile.SYMTYPE, linkname="../f"),
            one("d/out", tarfile.SYMTYPE, linkname="../../f"),
            one("d/around", tarfile.SYMTYPE, linkname="e/../../../f"),
            one("passwd", tarfile.SYMTYPE, linkname="/etc/passwd"),
        ]
        landed = land(tar(*members), self.top)
        self.assertEqual(landed.refused, ["d/out", "d/around", "passwd"])
        self.assertEqual(os.readlink(self.top / "d" / "in"), "../f")

    def test_limits(self) -> None:
        self.patch(limits, "MAX_ARCHIVE_ENTRIES", 2)
        self.assertRaises(Failure, land, tar(*(one(f"f{n}") for n in range(3))), self.top)
        self.patch(limits, "MAX_ARCHIVE_BYTES", 10)
        self.assertRaises(Failure, land, tar(one("a", body=b"123456"), one("b", body=b"123456")), self.top)

    def test_lies(self) -> None:
        good = tar(one("f", body=b"hello"))
        for field, value in (
            (slice(124, 136), b"\xff" * 12),
            (slice(124, 136), b"-0000000001\0"),
            (slice(0, 3), b"abc"),
        ):
            block = bytearray(good[:512])
            block[field] = value
            if field.start:
                block[148:156] = b" " * 8
                block[148:156] = b"%06o\0 " % sum(block)
            self.assertRaises(Failure, land, bytes(block) + good[512:], self.top)
        for records in (
            b"9 path=\n",
            b"99999 path=x\n",
            b"x",
            b"13 size=-9999\n",
            b"12 mtime=nan\n",
            b"1" * 40 + b" path=x\n",
        ):
            info, body = one("x", b"x", records)
            self.assertRaises(Failure, land, tar((info, body), one("f")), self.top)

    @settings(deadline=None, max_examples=60)
    @given(st.integers(0), st.data())
    def test_a_cut_or_damaged_archive_never_passes_for_whole(self, at: int, draw: st.DataObject) -> None:
        data = tar(one("a", body=b"x" * 600), one("b", tarfile.SYMTYPE, linkname="a"), one("ü" * 60, body=b"y"))
        data = data[: data.index(b"y" + bytes(511)) + 512]
        with tempfile.TemporaryDirectory() as top:
            self.assertRaises(Failure, land, data[: at % (len(data) + 1)], Path(top))
        damaged = bytearray(data + bytes(1024))
        damaged[at % len(data)] ^= draw.draw(st.integers(1, 255))
        with tempfile.TemporaryDirectory() as top, contextlib.suppress(Failure, OSError):
            land(bytes(damaged), Path(top))

    @settings(deadline=None, max_examples=100)
    @given(
        st.lists(st.tuples(st.integers(0, 5), st.lists(st.sampled_from(["..", ".", "a", "b", "c", ""]), max_size=5)))
    )
    def test_no_chain_of_links_leaves_the_top(self, links: list[tuple[int, list[str]]]) -> None:
        with tempfile.TemporaryDirectory() as place:
            top = Path(place).resolve() / "x" / "top"
            top.mkdir(parents=True)
            folders = [top, top / "a", top / "a" / "b", top / "c", top / "c" / "a", top / "c" / "a" / "b"]
            folders[2].mkdir(parents=True)
            folders[5].mkdir(parents=True)
            made = []
            for number, (where, parts) in enumerate(links):
                folder = folders[where]
                name = folder / f"{'abc'[number % 3]}{'' if not (folder / 'abc'[number % 3]).exists() else number}"
                if stays("/".join(parts), len(folder.relative_to(top).parts)) and not os.path.lexists(name):
                    name.symlink_to("/".join(parts))
                    made.append(name)
            for name in made:
                try:
                    found = name.resolve(strict=True)
                except (OSError, RuntimeError):
                    continue
                self.assertTrue(found == top or top in found.parents, (name, os.readlink(name), found))

    def test_the_umask_counts(self) -> None:
        old = os.umask(0o027)
        try:
            land(tar(one("f", body=b"x", mode=0o666)), self.top)
        finally:
            os.umask(old)
        self.assertEqual(stat.S_IMODE((self.top / "f").stat().st_mode), 0o640)

    def test_a_copy_where_there_is_no_second_name(self) -> None:
        from computerd.opc.unpack import Member

        kept = self.outside / "kept"
        kept.write_text("same")
        self.patch(os, "link", lambda *_, **__: self.fail_with_exdev())

        class Members:
            def __iter__(self) -> Iterator[Member]:
                yield Member("f", "kept", 4, 0o644, 5_000_000_000, str(kept), None, 4)

            def data(self) -> Iterator[bytes]:
                return iter(())

        landed = Landing(str(self.top), lambda count: None)
        landed.take(Members())
        landed.close()
        self.assertEqual(((self.top / "f").read_text(), (self.top / "f").stat().st_mtime), ("same", 5.0))

    def fail_with_exdev(self) -> None:
        raise OSError(18, "Invalid cross-device link")
