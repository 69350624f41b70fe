// From the folds of runs to what the plots show, their tables and the sentence that says the same without a picture.
//
// Pure functions, no DOM. `view` is one run: {name, title, baseline, fold, speedup}. Metrics come from fold.js; the
// predicted speed-up follows engines/bench.py and engines/cost.py (tests/browser/test_plots_js.py compares the two).
(function (root) {
  "use strict";

  const { EMITTED, expectedTokensPerPass } = root.SpecPlay;
  const PHASES = ["propose", "verify", "sample", "other"];
  const MOST_BARS = 160; // more are too thin to be told apart

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const finite = (x) => typeof x === "number" && Number.isFinite(x);
  const round = (x, digits) => (finite(x) ? Number(x.toFixed(digits)) : null);
  const fixed = (x, digits) => (finite(x) ? x.toFixed(digits) : "–");
  const percent = (x) => (finite(x) ? Math.round(100 * x) + " %" : "–");
  const PROPOSED = new Set(["accepted", "rejected", "unjudged"]);

  const proposedIn = (r) => r.tokens.filter((t) => PROPOSED.has(t.state)).length;
  const emittedIn = (r) => r.tokens.filter((t) => EMITTED.has(t.state)).length;
  const judgedRounds = (fold) => fold.rounds.filter((r) => r.tokens.every((t) => t.state !== "pending"));
  const speculative = (fold) => Boolean(fold.start) && fold.start.proposer !== "none";

  // The formula is of chains of one proposer: it says nothing of trees, nor of a mixture.
  function formulaApplies(fold) {
    return speculative(fold) && fold.start.proposer !== "auto" && fold.tokens().every((t) => t.node === null);
  }

  // v at n proposed tokens: interpolated, and beyond the measured ones carried on along the last two.
  function verifyCost(costs, n) {
    const known = Object.keys(costs.verify).map(Number).sort((a, b) => a - b);
    const v = (m) => costs.verify[m];
    const found = known.findIndex((m) => m >= n);
    const at = found < 0 ? known.length : found;
    if (known[at] === n) return v(n);
    const high = known[Math.min(at, known.length - 1)];
    const low = known[Math.max(0, Math.min(at, known.length - 1) - 1)];
    if (low === high) return v(low);
    return Math.max(v(low), v(low) + ((v(high) - v(low)) / (high - low)) * (n - low));
  }

  // As engines.bench.predicted_speedup, from the costs that the start event carries; null where that says None.
  function predictedSpeedup(fold) {
    const costs = fold.start ? fold.start.costs : null;
    const m = fold.metrics();
    if (!costs || !costs.pass_seconds || m.acceptance_rate === null) return null;
    if (fold.start.proposer === "auto" || fold.tokens().some((t) => t.node !== null)) return null;
    const aside = (m.seconds.sample + m.seconds.other) / m.rounds / costs.pass_seconds;
    const lengths = fold.rounds.map(proposedIn);
    const tokens = sum(lengths.map((n) => expectedTokensPerPass(m.acceptance_rate, n)));
    return (tokens * (1 + aside)) / sum(lengths.map((n) => verifyCost(costs, n) + n * costs.draft + aside));
  }

  // Seconds of one token of plain decoding, and where the number is from; null where nobody knows.
  function plainToken(view, views) {
    const from = (seconds, source) => ({ seconds, source });
    if (view.speedup && view.speedup.plain_rate) return from(1 / view.speedup.plain_rate, "its baseline");
    const baselines = views.filter((v) => v.baseline && v.fold.metrics().tokens_per_second);
    if (baselines.length === 1) return from(1 / baselines[0].fold.metrics().tokens_per_second, "the baseline");
    const costs = view.fold.start ? view.fold.start.costs : null;
    return costs && costs.pass_seconds ? from(costs.pass_seconds, "one pass, measured at load") : null;
  }

  // 1. Milliseconds of each round by phase; of a long run, the mean of neighbouring rounds.
  function roundCosts(view, views) {
    const rounds = judgedRounds(view.fold);
    const size = Math.max(1, Math.ceil(rounds.length / MOST_BARS));
    const plain = plainToken(view, views);
    const bars = [];
    for (let i = 0; i < rounds.length; i += size) {
      const some = rounds.slice(i, i + size);
      const bar = { from: some[0].number, to: some[some.length - 1].number,
        tokens: sum(some.map(emittedIn)) / some.length };
      for (const phase of PHASES) bar[phase] = (1000 * sum(some.map((r) => r.seconds[phase] || 0))) / some.length;
      bar.total = sum(PHASES.map((phase) => bar[phase]));
      bar.same = plain ? 1000 * plain.seconds * bar.tokens : null;
      bars.push(bar);
    }
    const all = sum(bars.map((b) => b.total)) || 1;
    const shares = PHASES.map((phase) => sum(bars.map((b) => b[phase])) / all);
    const spent = sum(rounds.map((r) => sum(PHASES.map((p) => r.seconds[p] || 0))));
    const mean = rounds.length ? (1000 * spent) / rounds.length : null;
    return { name: view.name, size, bars, shares, mean, plain: plain ? 1000 * plain.seconds : null,
      source: plain ? plain.source : "" };
  }

  function roundCostsSummary(data) {
    if (!data.bars.length) return "No round has been judged yet.";
    const [draft, verify, sample, other] = data.shares.map(percent);
    const plain = data.plain === null ? "" : " A token of plain decoding takes " + fixed(data.plain, 1) + " ms (" +
      data.source + ").";
    return "Panel " + data.name + ": a round takes " + fixed(data.mean, 1) + " ms on average, of which drafting " +
      draft +
      ", verifying " + verify + ", sampling " + sample + ", other " + other + "." + plain;
  }

  // 2. Acceptance by position beside a^(i+1) and a flat a.
  function byPosition(view) {
    const m = view.fold.metrics();
    const a = m.acceptance_rate;
    const iid = a !== null && formulaApplies(view.fold);
    const rounds = judgedRounds(view.fold);
    const last = rounds.map((r) => Math.max(-1, ...r.tokens.filter((t) => PROPOSED.has(t.state)).map((t) => t.position)));
    return {
      name: view.name, a, iid,
      positions: m.acceptance_by_position.map((unconditional, i) => ({
        position: i + 1, rounds: last.filter((at) => at >= i).length, unconditional,
        conditional: m.acceptance_by_position_judged[i],
        iidUnconditional: iid ? Math.pow(a, i + 1) : null, iidConditional: iid ? a : null,
      })),
    };
  }

  function byPositionSummary(all) {
    const said = all.map(({ name, a, positions }) => {
      const first = positions[0], last = positions[positions.length - 1];
      const judged = positions.length > 1 ? ", at position " + last.position + " " + percent(last.conditional) +
        " of those judged" : "";
      return "Panel " + name + ": acceptance " + percent(a) + " of judged tokens; at position 1 " +
        percent(first.unconditional) + judged + ".";
    });
    return said.join(" ") || "Nothing has been judged yet.";
  }

  // 3. How many tokens the passes yielded, beside a geometric distribution cut off at each round's own length.
  function passes(view) {
    const rounds = judgedRounds(view.fold);
    const m = view.fold.metrics();
    const a = formulaApplies(view.fold) ? m.acceptance_rate : null;
    const share = [], expected = [];
    const add = (list, n, x) => (list[n] = (list[n] || 0) + x);
    for (const r of rounds) {
      add(share, emittedIn(r), 1 / rounds.length);
      if (a === null) continue;
      const k = proposedIn(r);
      for (let n = 0; n < k; n++) add(expected, n + 1, (Math.pow(a, n) * (1 - a)) / rounds.length);
      add(expected, k + 1, Math.pow(a, k) / rounds.length);
    }
    const bins = [];
    for (let n = share[0] ? 0 : 1; n < Math.max(share.length, expected.length); n++) {
      bins.push({ tokens: n, measured: share[n] || 0, expected: a === null ? null : expected[n] || 0 });
    }
    const mean = a === null ? null : sum(bins.map((b) => b.tokens * b.expected));
    return { name: view.name, a, rounds: rounds.length, bins, mean: m.tokens_per_pass, expected: mean };
  }

  function passesSummary(all) {
    const said = all.filter((d) => d.rounds).map((d) =>
      "Panel " + d.name + ": " + fixed(d.mean, 2) + " tokens per pass over " + d.rounds +
        (d.rounds === 1 ? " pass" : " passes") +
      (d.expected === null ? "." : "; the formula expects " + fixed(d.expected, 2) + "."));
    return said.join(" ") || "No pass has been made yet.";
  }

  // 4. Measured beside predicted. What has no measured number says why.
  function speedups(views) {
    return views.map((view) => {
      const s = view.speedup;
      return {
        name: view.name, title: view.title || "", measured: s && finite(s.speedup) ? s.speedup : null,
        low: s && finite(s.low) ? s.low : null, high: s && finite(s.high) ? s.high : null,
        predicted: predictedSpeedup(view.fold), instead: (s && !finite(s.speedup) && s.instead) || "",
      };
    });
  }

  function speedupsSummary(all) {
    const said = all.map((d) => {
      const spread = d.low === null ? "" : " (" + fixed(d.low, 2) + " to " + fixed(d.high, 2) + ")";
      const measured = d.measured === null ? d.instead || "not measured yet" : fixed(d.measured, 2) +
        " times plain decoding" + spread;
      return "Panel " + d.name + ": " + measured + ", predicted " + (d.predicted === null ? "nothing" : fixed(d.predicted,
        2)) + ".";
    });
    return said.join(" ") || "Nothing has been measured yet.";
  }

  // 5. p and q of the judged tokens. Under greedy decoding p and q are 0 or 1, so that there what both models thought
  // before that is shown: p_raw, and the proposer's own confidence where it has one.
  function confidences(view) {
    const start = view.fold.start;
    const greedy = Boolean(start) && start.settings.sampling.temperature < 1e-3;
    const points = [];
    for (const t of view.fold.tokens()) {
      if (!t.judged || (t.state !== "accepted" && t.state !== "rejected")) continue;
      const confidence = t.proposed ? t.proposed.confidence : null;
      const q = greedy && finite(confidence) ? confidence : t.judged.q;
      const p = greedy && finite(t.judged.p_raw) ? t.judged.p_raw : t.judged.p;
      points.push({ round: t.round, position: t.position + 1, id: t.id,
        text: t.text || (t.proposed && t.proposed.piece) || "", state: t.state, p, q });
    }
    const flat = points.length > 0 && points.every((x) => x.q === points[0].q);
    return { name: view.name, greedy, flat, points };
  }

  function confidencesSummary(data) {
    const of = (state) => data.points.filter((x) => x.state === state);
    const mean = (points, key) => fixed(sum(points.map((x) => x[key])) / points.length, 2);
    if (!data.points.length) return "No token has been judged yet.";
    const said = ["accepted", "rejected"].map((state) => {
      const some = of(state);
      return some.length + " " + state + (some.length ? " (mean p " + mean(some, "p") + ", mean q " + mean(some, "q") +
        ")" : "");
    });
    return "Panel " + data.name + ": " + said.join(", ") + ".";
  }

  // Tables of what is plotted: the first row is the head.
  const tables = {
    roundCosts: (d) => [["first_round", "last_round", "drafting_ms", "verifying_ms", "sampling_ms", "other_ms", "tokens",
      "plain_token_ms"],
      ...d.bars.map((b) => [b.from, b.to, ...PHASES.map((p) => round(b[p], 4)), round(b.tokens, 4), round(d.plain, 4)])],
    byPosition: (all) => [["panel", "position", "rounds", "unconditional", "conditional", "iid_unconditional",
      "iid_conditional"],
      ...all.flatMap((d) => d.positions.map((x) => [d.name, x.position, x.rounds, x.unconditional, x.conditional,
        x.iidUnconditional, x.iidConditional]))],
    passes: (all) => [["panel", "tokens_per_pass", "share_of_passes", "formula"],
      ...all.flatMap((d) => d.bins.map((b) => [d.name, b.tokens, b.measured, b.expected]))],
    speedups: (all) => [["panel", "setting", "measured", "low", "high", "predicted"],
      ...all.map((d) => [d.name, d.title, d.measured, d.low, d.high, d.predicted])],
    confidences: (d) => [["round", "position", "id", "text", "state", "p", "q"],
      ...d.points.map((x) => [x.round, x.position, x.id, x.text, x.state, x.p, x.q])],
  };

  // Comma separated values as RFC 4180 has them. A text that a spreadsheet would take for a formula gets an apostrophe.
  function csv(rows) {
    const cell = (x) => {
      if (x === null || x === undefined) return "";
      if (typeof x === "number") return String(x);
      const text = /^[=+\-@\t\r]/.test(x) ? "'" + x : x;
      return /[",\r\n]/.test(text) || text !== text.trim() ? '"' + text.replaceAll('"', '""') + '"' : text;
    };
    return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
  }

  root.SpecPlay = Object.assign(root.SpecPlay, {
    plotsData: {
      PHASES, predictedSpeedup, verifyCost, formulaApplies, speculative, roundCosts, byPosition, passes, speedups,
      confidences,
      roundCostsSummary, byPositionSummary, passesSummary, speedupsSummary, confidencesSummary, tables, csv, fixed,
      percent,
    },
  });
})(typeof globalThis === "undefined" ? this : globalThis);
