"""One to four panels, settings in the address, keys, and runs that are kept."""

from __future__ import annotations

import json

import pytest
from looking import kept_text, tokens_of, wait_state

from app.words import in_words
from engines.settings import RunSettings, Sampling

WORDS = [f" w{i}" for i in range(40)]


def quick(run):
    run.play(WORDS, 2000, "eos")


def chips(page):
    return [page.locator(f"#sp-panel-{v} .sp-chip").inner_text() for v in "ABCD" if there(page, v)]


def there(page, letter):
    return page.locator(f"#sp-panel-{letter}").is_visible()


def press(page, letter, name):
    page.locator(f"#sp-panel-{letter}").get_by_role("button", name=f"{name} panel {letter}").click()


def run_all(page, last):
    page.locator("#sp-run:enabled").click()
    wait_state(page, last, "done")
    page.locator("#sp-run:enabled").wait_for()


def test_panels_are_added_duplicated_swapped_and_removed_with_their_runs(replay, visit):
    _, address = replay(lambda run: run.play([f" {run.settings.proposer}{i}" for i in range(20)], 2000, "eos"))
    page = visit(address)
    assert chips(page) == ["n-gram lookup (1 to 4) · k = 8 · greedy", "layer skip · k = 4 · greedy"]
    run_all(page, "B")
    ngram, skip = kept_text(page, "A"), kept_text(page, "B")
    press(page, "A", "Duplicate")
    page.wait_for_function("""() => document.querySelector("#sp-panel-B .sp-chip")?.textContent.startsWith("n-gram")""")
    assert [c.split(" (")[0].split(" ·")[0] for c in chips(page)] == ["n-gram lookup", "n-gram lookup", "layer skip"]
    assert (kept_text(page, "A"), kept_text(page, "B"), kept_text(page, "C")) == (ngram, "", skip)
    press(page, "C", "Move left:")
    page.wait_for_function("""() => document.querySelector("#sp-panel-B .sp-chip")?.textContent.startsWith("layer")""")
    assert (kept_text(page, "B"), kept_text(page, "C")) == (skip, "")
    assert page.locator("#sp-panel-C .sp-panel-tools").get_by_role("button", name="Move right: panel C").is_disabled()
    page.click("#sp-add")
    assert there(page, "D") and page.locator("#sp-add").is_disabled()
    run_all(page, "D")
    press(page, "A", "Remove")
    page.wait_for_function("""() => document.querySelector("#sp-panel-A .sp-chip").textContent.startsWith("layer")""")
    assert kept_text(page, "A") == skip and not there(page, "D")
    for _ in "AB":
        press(page, "A", "Remove")
    assert not there(page, "B")
    assert page.get_by_role("button", name="Remove panel A").is_disabled()
    run_all(page, "A")


def test_a_pinned_panel_keeps_its_run(replay, visit):
    engine, address = replay(quick)
    page = visit(address)
    run_all(page, "B")
    speed = page.locator('.sp-view[data-view="A"] [data-tile="speedup"] .sp-value').inner_text()
    press(page, "A", "Pin")
    assert page.get_by_role("button", name="Pin panel A").get_attribute("aria-pressed") == "true"
    engine.script = lambda run: run.play([" other"] * 20, 2000, "eos")
    before = len(engine.runs)
    run_all(page, "B")
    assert [r.settings.proposer for r in engine.runs[before:]] == ["none", "layer-skip"]
    assert kept_text(page, "A") == "".join(WORDS) and kept_text(page, "B") == " other" * 20
    assert page.locator('.sp-view[data-view="A"] [data-tile="speedup"] .sp-value').inner_text() == speed


def test_one_panel_is_always_left_to_run(replay, visit):
    engine, address = replay(quick)
    page = visit(address)
    page.click("#sp-add")
    press(page, "A", "Pin")
    press(page, "B", "Pin")
    press(page, "C", "Remove")
    page.wait_for_timeout(400)
    run_all(page, "B")
    assert [r.settings.proposer for r in engine.runs] == ["none", "layer-skip"]


def test_settings_live_in_the_address(replay, visit):
    engine, address = replay(quick)
    page = visit(address)
    page.locator(".sp-prompt textarea").fill("Say “hello” & <b>100 %</b>\nünïcode 🙂")
    panel = page.locator("#sp-panel-B")
    panel.get_by_label("who proposes").click()
    page.get_by_role("option", name="suffix lookup").click()
    panel.locator('.sp-controls input[type="number"]').nth(1).fill("0.7")
    panel.locator('.sp-controls input[type="number"]').nth(1).press("Enter")
    page.click("#sp-add")
    page.wait_for_function("() => location.hash.includes('suffix') && location.hash.includes('0.7')")
    page.wait_for_timeout(600)
    before, hash_ = chips(page), page.evaluate("location.hash")
    assert before[1] == "suffix lookup · k = 4 · temperature 0.7"
    for again in (visit(address, fragment=hash_), page):
        if again is page:
            page.reload()
        again.wait_for_function("() => document.querySelector('#sp-panels')?.dataset.count === '3'")
        again.wait_for_function(
            """() => document.querySelector("#sp-panel-B .sp-chip")?.textContent.startsWith("suffix")"""
        )
        assert chips(again) == before
        assert again.locator(".sp-prompt textarea").input_value().endswith("ünïcode 🙂")
        run_all(again, "C")
    settings = [r.settings for r in engine.runs if r.settings.proposer == "suffix"]
    assert settings[0] == settings[1] and settings[0].sampling.temperature == 0.7


@pytest.mark.parametrize(
    "preset",
    ["#%%%", "#[]", "#3", "#" + json.dumps({"prompt": 3, "panels": 7}),
     "#" + json.dumps({"panels": [{"proposer": "ngram", "k": -3.5, "sampling": {"temperature": 50}}]}),
     "#" + json.dumps({"panels": [None, {"k": "x"}]}),
     "#" + json.dumps({"panels": [{"proposer": "<img src=x onerror=alert(1)>", "verify": []}] * 9, "seed": -1})],
)  # fmt: skip
def test_an_address_that_nobody_wrote_does_no_harm(replay, visit, preset):
    _, address = replay(quick)
    page = visit(address, fragment=preset)
    page.wait_for_timeout(800)
    run_all(page, "A")
    assert kept_text(page, "A") == "".join(WORDS)


@pytest.mark.parametrize("hash_", ["#%7Bfoo", "#[1]", "#null"])
def test_a_link_that_cannot_be_read_says_so(replay, visit, hash_):
    _, address = replay(quick)
    page = visit(address, fragment=hash_)
    page.locator(".sp-menu-said:not(:empty)").wait_for()
    assert "cannot be read" in page.locator(".sp-menu-said").inner_text()
    assert len(chips(page)) == 2 and chips(page)[0].startswith("n-gram lookup")


def test_runs_are_saved_opened_and_brought_back(replay, visit, tmp_path):
    engine, address = replay(quick)
    page = visit(address)
    run_all(page, "B")
    before = [tokens_of(page, v).inner_html() for v in "AB"]
    words = [page.locator(f'.sp-view[data-view="{v}"] .sp-verdict').inner_text() for v in "AB"]
    page.get_by_text("Share and keep").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the runs").click()
    path = tmp_path / "runs.jsonl"
    saved.value.save_as(path)
    assert len(path.read_text().splitlines()) == sum(len(r.events) for r in engine.runs)

    for other in (visit(address), page):
        if other is page:
            page.reload()
            page.wait_for_selector('.sp-view[data-view="D"] .sp-tokens', state="attached")
            page.get_by_text("Share and keep").click()
            page.get_by_role("button", name="Bring back the last runs").click()
        else:
            other.locator('input[type="file"][accept*="jsonl"]').set_input_files(path)
        for view in "AB":
            wait_state(other, view, "done")
        assert [tokens_of(other, v).inner_html() for v in "AB"] == before
        assert [other.locator(f'.sp-view[data-view="{v}"] .sp-verdict').inner_text() for v in "AB"] == words
    assert len(engine.runs) == 3  # nothing was computed again


def test_an_opened_run_brings_its_prompt_and_can_be_tested(replay, visit, tmp_path):
    engine, address = replay(quick)
    page = visit(address)
    page.locator("#sp-panel-A").get_by_label("number input for temperature").fill("0.8")
    page.locator(".sp-prompt textarea").fill("the first prompt")
    run_all(page, "B")
    page.get_by_text("Share and keep").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the runs").click()
    path = tmp_path / "runs.jsonl"
    saved.value.save_as(path)
    page.locator(".sp-prompt textarea").fill("another one")
    page.get_by_label("seed").fill("5")
    page.locator('input[type="file"][accept*="jsonl"]').set_input_files(path)
    page.wait_for_function("() => document.querySelector('.sp-prompt textarea').value === 'the first prompt'")
    assert page.get_by_label("seed").input_value() == "0"
    asked = []
    page.route("**/specplay/law", lambda route: (asked.append(route.request.post_data_json), route.abort()))
    page.watched.leave()  # it notes that the request was cut off
    page.get_by_role("button", name="Is the distribution the same?").click()
    page.wait_for_selector(".sp-problem")
    assert asked[0]["prompt"] == "the first prompt" and asked[0]["panels"]["A"]["draft"] is None
    assert set(asked[0]["panels"]["A"]) == set(page.evaluate("SpecPlay.shared.fields"))


def test_nothing_is_opened_while_something_runs(replay, visit):
    engine, address = replay(quick)
    page = visit(address)
    run_all(page, "B")
    engine.script = lambda run: run.play([" other"] * 300, 100, "eos")
    page.click("#sp-run")
    wait_state(page, "baseline 1", "running")
    page.get_by_text("Share and keep").click()
    page.get_by_role("button", name="Bring back the last runs").click()
    page.locator(".sp-menu-said:not(:empty)").wait_for()
    assert "Something is running" in page.locator(".sp-menu-said").inner_text()
    page.click("#sp-stop")
    page.locator("#sp-run:enabled").wait_for()
    assert kept_text(page, "baseline 1").startswith(" other")


def test_a_file_that_holds_something_else_is_a_sentence(replay, visit, tmp_path):
    _, address = replay(quick)
    page = visit(address)
    run_all(page, "B")
    path = tmp_path / "x.jsonl"
    path.write_text("<script>alert(1)</script>\n")
    page.watched.leave()  # the browser notes each refusal
    page.locator('input[type="file"][accept*="jsonl"]').set_input_files(path)
    page.locator(".sp-menu-said:not(:empty)").wait_for()
    assert "line 1" in page.locator(".sp-menu-said").inner_text()
    assert kept_text(page, "A") == "".join(WORDS)  # nothing is lost


def test_keys_run_and_stop(replay, visit):
    engine, address = replay(lambda run: run.play(WORDS * 50, 60, "eos"))
    page = visit(address)
    page.locator(".sp-prompt textarea").focus()
    page.keyboard.press("Control+Enter")
    wait_state(page, "baseline 1", "running")
    page.keyboard.press("Escape")
    wait_state(page, "baseline 1", "stopped")
    page.locator("#sp-run:enabled").wait_for()
    assert [r.events[-1].reason for r in engine.runs] == ["stopped"]


SETTINGS = [
    RunSettings(proposer="ngram", k=8),
    RunSettings(proposer="layer-skip", skip_layers=(10, 11, 12, 20), verify="block"),
    RunSettings(proposer="draft", draft="org/small", adaptive=True, sampling=Sampling(0.7, 40, 0.9, 0.05)),
    RunSettings(proposer="eagle", k=5, branch=3),
    RunSettings(proposer="recycle"),
    RunSettings(proposer="auto", k=8),
    RunSettings(proposer="suffix", k=2, sampling=Sampling(1.25, repetition_penalty=1.1)),
    RunSettings(),
]


def test_the_browsers_words_are_the_programs(replay, visit):
    """words.js and preset.js: settings -> fields -> words, and back."""
    _, address = replay(quick)
    page = visit(address)
    for settings in SETTINGS:
        words, back = page.evaluate(
            """(settings) => {
              const { formOf, inWords, presetOf, withPanel } = SpecPlay;
              const all = withPanel(["p", 8, 0, ...Array(4 * SpecPlay.shared.fields.length)], 0, formOf(settings));
              return [inWords(formOf(settings)), presetOf(all, 1).panels[0]];
            }""",
            settings.to_json(),
        )
        assert words == in_words(settings)
        sampling = back.pop("sampling", {})
        layers = back.pop("skip_layers", "")
        assert RunSettings(**back, sampling=Sampling(**sampling)) == settings.replace(skip_layers=())
        assert layers == ("10-12, 20" if settings.skip_layers else "")
