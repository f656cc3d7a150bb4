"""What `--json` prints is what docs/schemas/ says, and has a version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from interlock.analysis.claims import ClaimVerdict, Finding
from interlock.cli import main
from interlock.report import claims
from interlock.results.json_documents import (
    MODELS,
    CheckedClaims,
    Compared,
    FailedCommand,
    schema_texts,
)
from tests.analysis.extracts import OTHER, write_experiment
from tests.builders import ROOT, make_claim, make_experiment


@pytest.mark.parametrize("name", MODELS)
def test_the_schema_in_the_docs_is_that_of_the_model_and_has_a_version(name: str) -> None:
    path = f"docs/schemas/{name}.json"
    assert (ROOT / path).read_text(encoding="utf-8") == schema_texts()[path]
    assert "schema_version" in json.loads(schema_texts()[path])["properties"]


def test_every_command_that_prints_json_has_a_schema() -> None:
    with_json = {
        name
        for name in main.COMMANDS
        if any("--json" in parameter.opts for parameter in main.load_command(name).params)
    }
    assert with_json - {"trial"} == MODELS.keys() - {"error"}  # it prints what `report` does
    page = (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")
    assert all(f"(schemas/{name}.json)" in page for name in MODELS)


def test_what_compare_prints_is_what_the_schema_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for day in range(2):
        write_experiment(Path(f"e{day}").absolute(), {OTHER: 2.0}, day)
    result = CliRunner().invoke(main.app, ["compare", "e0", "e1", "--results", ".", "--json"])
    assert result.exit_code == 0, result.output
    found = Compared.model_validate_json(result.output)
    assert found.tables


def test_claims_are_what_their_schema_says() -> None:
    found = claims.as_json(make_experiment(), [Finding(make_claim(), ClaimVerdict.NO_DATA, "none")])
    assert CheckedClaims.model_validate_json(found).findings[0].verdict == "no data yet"


def test_an_error_is_what_its_schema_says_and_nothing_else_is(capsys: pytest.CaptureFixture[str]) -> None:
    main._print_json("UsageError", "no", 2)
    said = capsys.readouterr().err
    assert FailedCommand.model_validate_json(said).error.exit_code == 2
    with pytest.raises(ValidationError):
        FailedCommand.model_validate({**json.loads(said), "more": 1})
