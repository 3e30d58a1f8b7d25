"""What control groups leave of their memory, read from trees of files as the kernel shows them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ooc_graph.runtime.machine import free_bytes

# What version 1 says where there is no limit, with pages of 4 KiB.
UNLIMITED_V1 = 0x7FFFFFFFFFFFF000


class Tree:
    """A process's files, and the file systems of control groups that are mounted."""

    def __init__(self, folder: Path) -> None:
        self.process, self.mounts = folder / "self", folder / "mounts"
        self.process.mkdir()
        self.say("cgroup", "0::/")
        self.say("mountinfo", "21 1 0:5 / /proc rw,nosuid - proc proc rw")

    def say(self, name: str, line: str) -> None:
        with (self.process / name).open("a") as file:
            file.write(f"{line}\n")

    def is_in(self, *lines: str) -> None:
        (self.process / "cgroup").write_text("".join(f"{line}\n" for line in lines))

    def mount(self, kind: str, name: str, options: str, root: str = "/") -> Path:
        folder = self.mounts / name
        folder.mkdir(parents=True)
        shown = str(folder).replace(" ", "\\040")
        self.say("mountinfo", f"31 23 0:28 {root} {shown} rw shared:9 - {kind} {kind} {options}")
        return folder

    def free(self) -> list[int]:
        return list(free_bytes(self.process))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def v1(folder: Path, limit: int, used: int, cached: int = 0, soft: int = UNLIMITED_V1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.soft_limit_in_bytes").write_text(f"{soft}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    # The first is of this group alone, and those below it have more.
    (folder / "memory.stat").write_text(
        f"cache 7\ninactive_file 3\ntotal_inactive_file {cached // 3}\n"
        f"total_active_file {cached - cached // 3}\n"
    )
    return folder


def v2(folder: Path, limit: int | str, used: int, cached: int = 0, high: int | str = "max") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.high").write_text(f"{high}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(
        f"anon 5\nshmem 90\ninactive_file {cached // 3}\nactive_file {cached - cached // 3}\n"
    )
    return folder


def test_what_is_in_use_is_not_free_but_for_pages_of_files(tree: Tree) -> None:
    tree.is_in("0::/")
    v2(tree.mount("cgroup2", "two", "rw"), 1000, 400, cached=150)
    assert tree.free() == [750]


def test_version_1_counts_the_groups_below(tree: Tree) -> None:
    tree.is_in("7:cpu,cpuacct:/other", "4:hugetlb,memory:/slurm/job", "0::/elsewhere")
    tree.mount("cgroup", "cpu", "rw,cpu,cpuacct")
    root = tree.mount("cgroup", "memory", "rw,hugetlb,memory")
    v1(root, UNLIMITED_V1, 5000)
    v1(root / "slurm", 4000, 2500, cached=300)
    v1(root / "slurm" / "job", 3000, 1000, cached=200, soft=2600)
    v1(root / "other", 1, 0)
    assert [left for left in tree.free() if left < 1 << 60] == [2200, 1800, 1800]
    # A number that is no limit is more than any machine has.
    assert max(tree.free()) > 1 << 62


@pytest.mark.parametrize(
    ("own", "middle", "least"),
    [
        (("max", 100), (900, 600), 300),
        ((500, 100), (900, 600), 300),
        ((500, 400), (900, 600), 100),
        (("max", 100), ("max", 600), None),
    ],
)
def test_the_lowest_of_nested_groups_may_be_any(
    own: tuple[int | str, int], middle: tuple[int | str, int], least: int | None, tree: Tree
) -> None:
    tree.is_in("0::/user.slice/run.scope")
    # The topmost group of version 2 has none of these files.
    root = tree.mount("cgroup2", "two", "rw,nsdelegate")
    v2(root / "user.slice", *middle)
    v2(root / "user.slice" / "run.scope", *own)
    v2(root / "user.slice" / "sibling.scope", 1, 1)
    assert min(tree.free(), default=None) == least


def test_a_soft_limit_is_one(tree: Tree) -> None:
    tree.is_in("0::/job")
    v2(tree.mount("cgroup2", "two", "rw") / "job", 1000, 400, high=700)
    assert tree.free() == [600, 300]


@pytest.mark.parametrize("used", [900, 1000, 1500])
def test_less_than_nothing_is_never_left(used: int, tree: Tree) -> None:
    v2(tree.mount("cgroup2", "two", "rw"), 1000, used)
    assert tree.free() == [max(0, 1000 - used)]


def test_cached_pages_add_nothing_to_a_limit(tree: Tree) -> None:
    v2(tree.mount("cgroup2", "two", "rw"), 1000, 100, cached=400)
    assert tree.free() == [1000]


@pytest.mark.parametrize(
    ("group", "root"),
    [
        ("/docker/abc", "/docker/abc"),  # A container without a namespace of groups.
        ("/", "/"),  # One with a namespace.
        ("/docker/abc", "/"),  # A namespace whose file system was mounted outside.
        ("/", "/docker/abc"),
        ("/../other", "/"),  # A process that was moved out of its namespace.
        ("/a/b (deleted)", "/"),
    ],
)
def test_a_container_sees_the_limit_of_its_own_group(group: str, root: str, tree: Tree) -> None:
    tree.is_in(f"0::{group}")
    folder = tree.mount("cgroup2", "two", "rw", root)
    v2(folder, 1000, 300)
    v2(folder.parent / "other", 1, 1)
    assert tree.free() == [700]


def test_groups_below_that_of_a_container(tree: Tree) -> None:
    tree.is_in("0::/docker/abc/inner")
    folder = tree.mount("cgroup2", "two", "rw", "/docker/abc")
    v2(folder, 1000, 300)
    v2(folder / "inner", 500, 100)
    assert tree.free() == [400, 700]


def test_hybrid_has_the_memory_of_version_1_and_groups_of_both(tree: Tree) -> None:
    tree.is_in("4:memory:/job", "1:name=systemd:/session", "0::/session")
    tree.mount("cgroup", "systemd", "rw,xattr,name=systemd")
    (tree.mount("cgroup2", "unified", "rw") / "session").mkdir()
    v1(tree.mount("cgroup", "memory", "rw,memory") / "job", 1000, 300)
    assert min(tree.free()) == 700


def test_names_with_characters_that_the_kernel_escapes(tree: Tree) -> None:
    tree.is_in("0::/dev\\x2dsda/with space:colon")
    folder = tree.mount("cgroup2", "with space", "rw", "/dev\\134x2dsda")
    v2(folder / "with space:colon", 1000, 300)
    assert tree.free() == [700]


@pytest.mark.parametrize(
    ("missing", "left"),
    [
        ("memory.max", [500]),
        ("memory.high", [700]),
        ("memory.current", [1000, 800]),
        ("memory.stat", [600, 400]),
    ],
)
def test_files_that_are_not_there(missing: str, left: list[int], tree: Tree) -> None:
    folder = v2(tree.mount("cgroup2", "two", "rw"), 1000, 400, cached=100, high=800)
    (folder / missing).unlink()
    assert tree.free() == left


@pytest.mark.parametrize("text", ["", "inactive_file\n", "inactive_file many\n", "\xff\xfe 1\n"])
def test_statistics_that_say_nothing_free_nothing(text: str, tree: Tree) -> None:
    folder = v2(tree.mount("cgroup2", "two", "rw"), 1000, 400)
    (folder / "memory.stat").write_bytes(text.encode("latin-1"))
    assert tree.free() == [600]


def test_no_groups_at_all(tree: Tree, tmp_path: Path) -> None:
    assert tree.free() == []
    tree.mount("cgroup2", "two", "rw")
    assert tree.free() == []
    for name in ("cgroup", "mountinfo"):
        (tree.process / name).write_text("")
        assert tree.free() == []
    assert list(free_bytes(tmp_path / "nothing")) == []


@pytest.mark.parametrize("line", ["", "31 23 - cgroup2", "31 23 0:28 / - cgroup2 x rw", "cgroup2"])
def test_lines_of_other_shapes_are_passed_over(line: str, tree: Tree) -> None:
    tree.say("cgroup", line)
    tree.say("mountinfo", line)
    v2(tree.mount("cgroup2", "two", "rw"), 1000, 400)
    assert tree.free() == [600]


def test_the_files_of_this_process_are_read() -> None:
    own = Path("/proc", str(os.getpid()))
    assert own.exists()
    assert len(list(free_bytes())) == len(list(free_bytes(own)))
