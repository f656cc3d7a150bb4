"""What requirements files ask for: lines, options, includes, and files of this machine; each error names its line."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pip._internal.req.req_file import preprocess

from interlock.engine.packages import dependency_files
from interlock.engine.packages.requirements import (
    LONGEST_LINE,
    MOST_FILES,
    Line,
    Requirements,
    called,
    display_text,
    hosts_in,
    line_for,
    local_places,
    logical_lines,
    pip_lines,
)
from interlock.errors import RequirementsError

PINNED = "--hash=sha256:" + "a" * 64


def read(main: str, *there: str, name: str = "requirements.txt", **files: str) -> Requirements:
    """`files` are others by name, with `_` for a dot; `there` are paths that exist besides."""
    known = {name: main, **{other.replace("_", "."): text for other, text in files.items()}}

    def read_text(path: Path) -> str:
        try:
            return known[str(path)]
        except KeyError:
            raise FileNotFoundError(2, "No such file or directory") from None

    return dependency_files.read([name], read_text, lambda path: str(path) in there).here()


def only(wanted: Requirements) -> Line:
    (line,) = wanted.lines
    return line


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Flask-SQLAlchemy==3.1", "flask-sqlalchemy"),
        ("requests[socks,security]>=2; python_version < '3.15'", "requests"),
        (f"idna==3.10 {PINNED} {PINNED}", "idna"),
        ("foo @ https://example.org/a/Foo_Bar-1.0.tar.gz ; sys_platform == 'linux'", "foo"),
        ("https://example.org/Foo_Bar-1.0.tar.gz#sha256=00", "foo-bar"),
        ("https://example.org/foo_bar-1.0-py3-none-any.whl", "foo-bar"),
        ("git+https://example.org/project.git@v1#egg=Foo.Bar&subdirectory=x", "foo-bar"),
        ("-e git+https://example.org/project.git#egg=foo", "foo"),
        ("foo @ git+https://example.org/project.git@v1", "foo"),
        ("git+https://example.org/project.git", ""),
    ],
)
def test_the_name_of_a_requirement_is_canonical_wherever_it_stands(text: str, name: str) -> None:
    line = only(read(text))
    assert (line.name, line.path) == (name, None)
    assert line.text == text.removeprefix("-e ")


@pytest.mark.parametrize(
    ("text", "there", "expected"),
    [
        (".", ".", "/here"),
        ("-e .", ".", "/here"),
        ("--editable=.[dev]", ".", "/here[dev]"),
        ('-e ".[dev]"', ".", "/here[dev]"),
        ("./sub ; python_version > '3'", "sub", "/here ; python_version > '3'"),
        ("foo-1.0.tar.gz", "foo-1.0.tar.gz", "/here"),
        (f"vendor/foo-1.0-py3-none-any.whl {PINNED}", "vendor/foo-1.0-py3-none-any.whl", f"/here {PINNED}"),
        ("file:///srv/a%20b/foo-1.0.zip#sha256=00", "/srv/a b/foo-1.0.zip", "file:///here#sha256=00"),
        ("foo[x] @ file:///srv/foo ; python_version > '3'", "/srv/foo", "foo[x] @ file:///here ; python_version > '3'"),
    ],
)
def test_what_lies_on_this_machine_gets_a_place_in_the_container(text: str, there: str, expected: str) -> None:
    line = only(read(text, there))
    assert line.path == Path(there)
    assert pip_lines([line], {Path(there): "/here"}) == [expected]


def test_a_path_is_looked_for_below_the_current_folder_and_then_below_the_files_own() -> None:
    assert only(read("-e ./lib", "lib", "sub/lib", name="sub/r.txt")).path == Path("lib")
    assert only(read("-e ./lib", "sub/lib", name="sub/r.txt")).path == Path("sub/lib")


def folder_with_more_beside_it(folder: Path) -> Path:
    """A user's folder, links in it that lead out, and what no package's build is to see."""
    for name in ("mine/wheels", "mine/sub", "secret"):
        (folder / name).mkdir(parents=True)
    (folder / "secret/key").write_text("x")
    (folder / "mine/link").symlink_to(folder / "secret")
    (folder / "mine/in").symlink_to("wheels")
    return folder / "mine"


@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize(
    "line",
    [
        "--find-links {secret}",
        "-f file://{secret}",
        "--find-links ../secret",
        "--find-links wheels/../../secret",
        "-f link",
        "-e ../secret",
        "./link/",
        "x @ file://{secret}/key",
        "--index-url http://localhost:80/simple",
        "--index-url 'http://localhost'",
        "--extra-index-url=https://u:p@127.1.2.3",
        "-f http://[::1]/x",
        "x @ git+http://0.0.0.0:1/x",
    ],
)
def test_what_is_not_of_the_users_folder_or_is_this_very_machine_is_refused_with_its_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = folder_with_more_beside_it(tmp_path)
    monkeypatch.chdir(mine / "sub")
    (mine / "r.txt").write_text(f"-f wheels\n-f in\n-e ../sub\n{line.format(secret=tmp_path / 'secret')}\n")
    wanted = dependency_files.read([str(mine / "r.txt")], Path.read_text, Path.exists).here()
    assert [(error.file, error.key) for error in wanted.refused] == [(str(mine / "r.txt"), "line 4")]
    with pytest.raises(RequirementsError):
        wanted.require_allowed()


def test_an_archives_name_without_an_archive_is_a_packages_name() -> None:
    assert only(read("zope.zip")).name == "zope-zip"


def test_included_files_are_read_in_their_place_and_below_their_own_folder() -> None:
    files = {"r.txt": "-r sub/a.txt\nflask", "sub/a.txt": "-r b.txt\nidna", "sub/b.txt": "six"}
    wanted = dependency_files.read(["r.txt"], lambda path: files[str(path)], lambda _: False).here()
    assert [(line.file, line.number, line.name) for line in wanted.lines] == [
        ("sub/b.txt", 1, "six"),
        ("sub/a.txt", 2, "idna"),
        ("r.txt", 2, "flask"),
    ]


def test_constraints_ask_for_nothing_unless_they_include_requirements() -> None:
    wanted = read("flask\n--constraint c.txt", c_txt="-c d.txt\n-r e.txt\nidna<4", d_txt="six<2", e_txt="click")
    assert [line.name for line in wanted.lines] == ["flask", "click"]
    assert [line.text for line in wanted.constraints] == ["six<2", "idna<4"]


def test_options_hold_for_all_and_stay_in_their_order() -> None:
    text = (
        "--index-url https://example.org/simple\n--extra-index-url=https://b.example\n--pre\nflask\n"
        "-i 'https://c.example'\n--find-links https://d.example/x.html\n--no-binary :all:"
    )
    assert read(text).options == [
        "--index-url https://example.org/simple",
        "--extra-index-url https://b.example",
        "--pre",
        "--index-url https://c.example",
        "--find-links https://d.example/x.html",
        "--no-binary :all:",
    ]


def test_options_in_one_line_are_several() -> None:
    wanted = read("--no-index --find-links=./wheels --all-releases :all:\nflask", "wheels")
    assert (wanted.links, wanted.options) == ([Path("wheels")], ["--no-index", "--all-releases :all:"])


@pytest.mark.parametrize("option", ["--index-url", "--find-links"])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("'https://u:p\\x@host'", ["https://u:p\\x@host"]),
        ("https://u:p\\x@host", ["https://u:px@host"]),
        ("https://${TOKEN}@host", ["https://${TOKEN}@host"]),
        ('"https://u:it\'s@host"', ["https://u:it's@host"]),
    ],
)
def test_an_option_is_unquoted_by_pip_alone(option: str, value: str, words: list[str]) -> None:
    (read_one,) = read(f"{option} {value}\nflask").options
    assert shlex.split(read_one) == [option, *words]
    assert hosts_in(read_one) == ["host"]


def test_a_folder_of_wheels_is_no_option_but_one_of_this_machines_folders() -> None:
    wanted = read("flask\n-f ./wheels", "wheels")
    assert (wanted.links, wanted.options) == ([Path("wheels")], [])


def test_one_hash_or_the_option_makes_pip_ask_for_all() -> None:
    assert read(f"flask==3 {PINNED}").hashed
    assert read("--require-hashes\nflask==3").hashed
    assert not read("flask==3").hashed


@pytest.mark.parametrize("unhashable", ["-e .", "x @ git+https://example.org/x@main"])
def test_beside_what_no_hash_is_known_of_pip_is_asked_to_check_none_unless_the_file_insists(unhashable: str) -> None:
    text = f"{unhashable}\nflask==3 {PINNED} --config-settings=a=b {PINNED}"
    assert not read(text, ".").hashed
    assert read(text, ".").lines[1].text == "flask==3 --config-settings=a=b"
    assert read(f"--require-hashes\n{text}", ".").lines[1].text.count(PINNED) == 2
    assert read(f"./x-1.zip\nflask==3 {PINNED}", "x-1.zip").hashed


def test_a_line_whose_marker_does_not_hold_is_not_asked_for_nor_blamed() -> None:
    text = f"""\
numpy==2.4 ; python_full_version < '3.12' {PINNED}
numpy==2.5 ; python_full_version >= '3.12' {PINNED}
./lib[x] ; python_version < '3'
x @ https://example.org/x;y.zip ; python_version < '3'
y @ https://example.org/y;z.zip
"""
    wanted = dependency_files.read(["r.txt"], lambda _: text, lambda path: path == Path("lib"))
    for version, line in (("3.11", 1), ("3.14", 2)):
        lines = wanted.at({"python_version": version, "python_full_version": f"{version}.1"})
        assert [each.number for each in lines.lines] == [line, 5]
        assert (found := line_for(lines, "numpy", "", {})) is not None
        assert found.number == line
    assert [each.number for each in wanted.here().lines] == [1, 2, 3, 4, 5]


def test_variables_that_pip_fills_in_are_told() -> None:
    assert read("--index-url https://${USER}:${TOKEN}@example.org\nflask\n# ${NO}").variables == ["TOKEN", "USER"]


def test_the_mark_that_some_editors_write_first_is_no_part_of_a_name() -> None:
    assert only(read("\ufeffflask")).name == "flask"


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("six\nidna==", 2, "idna=="),
        ("one two", 1, "one two"),
        ("--frobnicate\nsix", 1, "--frobnicate"),
        ("--pre yes\nsix", 1, "--pre"),
        ("--index-url\nsix", 1, "--index-url"),
        ("-e ./nowhere", 1, "./nowhere"),
        ("foo @ file:///nowhere", 1, "file:///nowhere"),
        ("--find-links ./nowhere\nsix", 1, "./nowhere"),
        ("-r https://example.org/r.txt", 1, "https://example.org/r.txt"),
        ("https://[::1", 1, "https://[::1"),
        ("-e git+https://[::1", 1, "git+https://[::1"),
        ("-f file://[x", 1, "file://[x"),
        ("--index-url https://u:it's@example.org/simple", 1, "it's"),
        ("-r it's.txt", 1, "it's"),
        ("a" * 30_000, 1, f"{LONGEST_LINE}"),
    ],
)
def test_what_pip_would_not_take_is_refused_with_its_line(text: str, line: int, named: str) -> None:
    with pytest.raises(RequirementsError) as caught:
        read(text)
    assert (caught.value.file, caught.value.key) == ("requirements.txt", f"line {line}")
    assert named in caught.value.found


@pytest.mark.parametrize(
    ("text", "file", "key", "named"),
    [
        ("-r other.txt", "requirements.txt:1", "other.txt", ""),
        ("# nothing\n", "requirements.txt", "", ""),
        ("-r a.txt", "b.txt:1", "", "a.txt"),
    ],
    ids=["a missing file", "no requirement", "a file that includes itself"],
)
def test_what_is_wrong_with_a_file_is_refused_with_the_line_that_names_it(
    text: str, file: str, key: str, named: str
) -> None:
    with pytest.raises(RequirementsError) as caught:
        read(text, a_txt="-r b.txt", b_txt="-r a.txt")
    assert (caught.value.file, caught.value.key) == (file, key)
    assert named in caught.value.found


def test_a_file_that_is_missing_or_in_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequirementsError, match=r"nowhere.txt: the file cannot be read \(no such file or directory\)"):
        dependency_files.read([str(tmp_path / "nowhere.txt")], Path.read_text, Path.exists)
    latin = tmp_path / "latin.txt"
    latin.write_bytes(b"# caf\xe9\nsix\n")
    with pytest.raises(RequirementsError) as caught:
        dependency_files.read([str(latin)], lambda path: path.read_text(encoding="utf-8"), Path.exists)
    assert caught.value.file == str(latin)


@given(st.text(alphabet=st.sampled_from("abz09-_.=<>~![]@:;/#'\" \\\n$e{}%") | st.characters(), max_size=60))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        said = read(text).lines[0].file
    except RequirementsError as error:
        said = str(error)
    assert said.startswith("requirements.txt")


def test_each_local_path_has_one_place_and_an_archive_keeps_its_name() -> None:
    wanted = read(".\n.[dev]\n./foo-1.0.zip", ".", "foo-1.0.zip")
    assert local_places(wanted, "/l") == {Path(): "/l/0", Path("foo-1.0.zip"): "/l/1/foo-1.0.zip"}


def test_a_package_is_found_by_its_name_its_path_or_its_address() -> None:
    wanted = read("Flask>=3\n./lib\ngit+https://example.org/project.git\ngit+https://${TOKEN}@example.org/own", "lib")
    places = local_places(wanted, "/l")
    flask, lib, project, own = wanted.lines
    assert line_for(wanted, "flask", "https://example.org/flask.whl", places) == flask
    assert line_for(wanted, "anything", "file:///l/0", places) == lib
    assert line_for(wanted, "anything", "https://example.org/project.git", places) == project
    assert line_for(wanted, "anything", "https://example.org/own", places) == own
    assert line_for(wanted, "idna", "https://example.org/idna.whl", places) is None


def test_folders_of_one_name_are_called_by_their_paths() -> None:
    wanted = read("-e a/lib\n./b/lib\n./a/lib[x]\n./c/six\nSix\n./d/own", "a/lib", "b/lib", "c/six", "d/own")
    assert [called(line, wanted.lines) for line in wanted.lines] == ["a/lib", "b/lib", "a/lib", "c/six", "six", "own"]
    project = only(read("git+https://me:secret@example.org/project"))
    assert called(project, []) == "git+https://example.org/project"


def test_a_line_is_shown_with_its_place_and_without_hashes_and_passwords() -> None:
    assert display_text(only(read(f"\nflask==3 {PINNED}"))) == "requirements.txt:2 flask==3"
    assert display_text(only(read("-e ./lib[x]", "lib"))) == "requirements.txt:1 lib[x]"
    assert display_text(only(read("foo @ https://me:secret@example.org/foo-1.zip"))).endswith(
        "foo @ https://****@example.org/foo-1.zip"
    )
    assert display_text(None) == ""


@given(st.text(alphabet="ab \t\\#\n\r\x0b", max_size=40))
def test_any_text_is_cut_into_the_lines_that_pip_cuts_it_into(text: str) -> None:
    assert [line for _, line in logical_lines(text)] == [line.strip() for _, line in pips_own(text)]


@given(st.text(alphabet="ab \\#\n", max_size=40))
@example("# first\n\nflask \\\n  >= 3  # why\nidna#not-a-comment\nrequests\\\n # ends it\nsix")
def test_lines_have_the_numbers_that_pip_gives_them(text: str) -> None:
    assert list(logical_lines(text)) == [(number, line.strip()) for number, line in pips_own(text)]


def pips_own(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in preprocess(text) if line.strip()]


def test_files_that_include_each_other_twice_end() -> None:
    files = {f"r{number}_txt": f"-r r{number + 1}.txt\n" * 2 for number in range(60)}
    with pytest.raises(RequirementsError, match=rf"\b{MOST_FILES}\b"):
        read("-r r0.txt\n", **files, r60_txt="numpy\n")


def test_a_line_of_spaces_takes_no_longer_than_its_length() -> None:
    start = time.process_time()
    assert list(logical_lines("a" + " " * 500_000 + "b")) != []
    assert time.process_time() - start < 2
