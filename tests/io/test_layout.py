"""Which folders are runs, what a new run may replace, and links inside a run folder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from cases import random_graph
from graphlatent import NodeLaGraph, RunFolder
from graphlatent.errors import OutputError, RunFolderError
from graphlatent.io.layout import clear, is_free, is_run
from graphlatent.training.loop import Hooks

GRAPH = random_graph([9])
NAMES = ("config.toml", "features.json", "versions.json", "model.safetensors", "manifest.json")


def fit(run: RunFolder | Path) -> NodeLaGraph:
    run = RunFolder(run) if isinstance(run, Path) else run
    hooks = Hooks(save_due=lambda: True, save=run.save_snapshot)
    estimator = NodeLaGraph(hidden_dim=4, epochs=2, device="cpu")
    return estimator.fit(GRAPH, run=run, hooks=hooks)


@pytest.fixture
def trained(tmp_path) -> Path:
    fit(tmp_path / "run")
    return tmp_path / "run"


def content(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


class TestRecognition:
    def test_a_run_and_what_is_left_of_one(self, trained):
        assert is_run(trained) and not is_free(trained)
        (trained / "manifest.json").unlink()
        assert is_run(trained)
        # Not copied along.
        (trained / "versions.json").unlink()
        assert is_run(trained)

    def test_a_run_of_an_earlier_version_that_was_killed_as_it_began(self, trained):
        for path in trained.iterdir():
            if path.name != "config.toml":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        assert is_run(trained) and not is_free(trained)
        (trained / "thesis.tex").touch()
        assert not is_run(trained)

    @pytest.mark.parametrize(
        "files",
        [
            {"config.toml": "[tool]\nname = 'mine'\n"},
            {"config.toml": "# graphlatent 0.1.0\n", "results.json": "{}"},
            {"manifest.json": '{"name": "app", "version": 1}', "versions.json": "[1]"},
            {"versions.json": "no JSON", "config.toml": "epochs = 3\n"},
            {"features.json": "{}", "notes.txt": "mine"},
        ],
    )
    def test_folders_of_the_user(self, tmp_path, files):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        before = content(tmp_path)
        assert not is_run(tmp_path) and not is_free(tmp_path)
        run = RunFolder(tmp_path, replace=True)
        with pytest.raises(OutputError, match=r"is not a run folder, so it is not replaced"):
            run.check_free(overwrite=True)
        with pytest.raises(OutputError, match=r"is not a run folder, so its .* is not replaced"):
            fit(run)
        assert content(tmp_path) == before

    def test_the_users_own_files_in_a_run_folder_stay(self, trained):
        own = ("notes.txt", "state/mine.npz", ".hidden", "embeddings.csv")
        for name in own:
            (trained / name).write_text("mine")
        fit(RunFolder(trained, replace=True))
        assert all((trained / name).read_text() == "mine" for name in own)
        assert RunFolder(trained).complete

    def test_a_folder_of_the_user_without_such_files_takes_a_run(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        fit(tmp_path)
        assert RunFolder(tmp_path).complete and (tmp_path / "notes.txt").read_text() == "mine"


class TestLinks:
    @pytest.mark.parametrize("name", [*NAMES, "embeddings.parquet", "results.json", "map.png"])
    @pytest.mark.parametrize("target", ["file", "folder", "nowhere"])
    def test_files_that_are_links(self, trained, tmp_path, name, target):
        (tmp_path / "file").write_text("mine")
        (tmp_path / "folder").mkdir()
        (trained / name).unlink(missing_ok=True)
        (trained / name).symlink_to(tmp_path / target)
        before = content(tmp_path)
        message = f"Cannot write .*{name}: it is a link, and links inside a run folder"
        with pytest.raises(OutputError, match=message):
            fit(RunFolder(trained, replace=True))
        assert content(tmp_path) == before

    @pytest.mark.parametrize("target", ["folder", "nowhere"])
    def test_a_state_that_is_a_link(self, trained, tmp_path, target):
        (trained / "state").rename(tmp_path / "folder")
        (tmp_path / "folder" / ".last.safetensors.9.tmp").write_text("of another run")
        (trained / "state").symlink_to(tmp_path / target)
        (trained / "manifest.json").unlink()
        before = content(tmp_path)
        for replace in (False, True):
            with pytest.raises(OutputError, match=r"state: it is a link, and links inside"):
                fit(RunFolder(trained, replace=replace))
        # Reading follows it.
        assert (RunFolder(trained).load_snapshot() is None) == (target == "nowhere")
        assert content(tmp_path) == before

    def test_a_link_that_comes_while_training(self, tmp_path):
        run, other = RunFolder(tmp_path / "run"), tmp_path / "other"
        other.mkdir()

        def link(_: object) -> None:
            (run.path / "state").symlink_to(other)

        hooks = Hooks(on_epoch=link, save_due=lambda: run.path.is_symlink(), save=run.save_snapshot)
        estimator = NodeLaGraph(hidden_dim=4, epochs=1, device="cpu")
        with pytest.raises(OutputError, match="it is a link"):
            estimator.fit(GRAPH, run=run, hooks=hooks)
        assert content(other) == {}

    def test_a_run_folder_that_is_a_link(self, tmp_path):
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        fit(tmp_path / "link")
        assert RunFolder(tmp_path / "real").complete and (tmp_path / "link").is_symlink()

    def test_names_of_files_that_are_folders(self, trained):
        (trained / "embeddings.parquet").mkdir()
        with pytest.raises(OutputError, match=r"embeddings.parquet: it is a folder. Delete it"):
            fit(RunFolder(trained, replace=True))
        shutil.rmtree(trained / "embeddings.parquet")
        shutil.rmtree(trained / "state")
        (trained / "state").write_text("mine")
        with pytest.raises(OutputError, match=r"state: it is not a folder. Delete it"):
            fit(RunFolder(trained, replace=True))


class Killed(BaseException):
    """In place of SIGKILL."""


class TestKilledAsItBegan:
    def start(self, folder: Path, monkeypatch, *, after: int) -> None:
        """Begin a run and stop after so many files, which are complete."""
        count = [0]

        original = os.replace

        def replace(source, target):
            if count[0] == after:
                raise Killed
            count[0] += 1
            original(source, target)

        with monkeypatch.context() as patch:
            patch.setattr("os.replace", replace)
            with pytest.raises(Killed):
                fit(RunFolder(folder, replace=True))

    @pytest.mark.parametrize("old", [False, True])
    @pytest.mark.parametrize("after", range(4))
    def test_there_is_no_run_or_one_that_goes_on(self, tmp_path, monkeypatch, after, old):
        fit(tmp_path / "whole")
        folder = tmp_path / "run"
        if old:
            NodeLaGraph(hidden_dim=7, epochs=2, device="cpu").fit(GRAPH, run=folder)
        self.start(folder, monkeypatch, after=after)
        run = RunFolder(folder)
        if run.started:
            assert run.can_resume() and after == 3
        else:
            run.check_free(overwrite=False)
        fit(run)
        for name in ("model.safetensors", "config.toml", "features.json"):
            assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name

    @pytest.mark.parametrize("deleted", range(14))
    def test_while_the_old_run_was_deleted(self, trained, tmp_path, monkeypatch, deleted):
        before = content(trained)
        unlinked: list[Path] = []

        def unlink(path, missing_ok=False):
            if len(unlinked) == deleted:
                raise Killed
            unlinked.append(path)
            (tmp_path / "away").mkdir(exist_ok=True)
            if path.exists():
                path.rename(tmp_path / "away" / path.name)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", unlink)
            if deleted < 13:
                with pytest.raises(Killed):
                    clear(trained)
            else:
                clear(trained)
        run = RunFolder(trained)
        if run.started:
            assert run.can_resume()
        else:
            run.check_free(overwrite=False)
        fit(run)
        for name in ("model.safetensors", "config.toml", "history.csv"):
            assert (trained / name).read_bytes() == before[name], name

    @pytest.mark.parametrize("names", [("versions.json",), ("versions.json", "features.json")])
    def test_by_an_earlier_version(self, trained, tmp_path, names):
        for name in (*names, "manifest.json"):
            (trained / name).unlink()
        for name in names:
            with pytest.raises(RunFolderError, match=rf"lacks .*{name}.*Copy the whole folder, or"):
                fit(trained)
        # Without a snapshot nothing is lost by beginning again.
        (trained / "state" / "last.safetensors").unlink()
        fit(trained)
        assert json.loads((trained / "versions.json").read_text())["format"] == 1


def test_a_complete_run_is_not_trained_again(trained):
    before, epochs = content(trained), []
    (trained / "state" / "last.safetensors").write_bytes(b"not needed")
    again = NodeLaGraph(hidden_dim=4, epochs=2, device="cpu").fit(
        GRAPH, run=trained, hooks=Hooks(on_epoch=epochs.append)
    )
    assert epochs == [] and len(again.history_) == 2
    assert (again.transform(GRAPH) == NodeLaGraph.load(trained).transform(GRAPH)).all()
    assert {
        **content(trained),
        "state/last.safetensors": before["state/last.safetensors"],
    } == before
    with pytest.raises(RunFolderError, match="epochs: 2 in the run, 3 now"):
        NodeLaGraph(hidden_dim=4, epochs=3, device="cpu").fit(GRAPH, run=trained)
