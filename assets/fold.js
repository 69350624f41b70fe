// Events -> what to show and what to count, in the browser: the mirror of engines/fold.py.
//
// The definitions live there; this file follows it line by line, and tests/browser/test_fold_js.py folds the same
// runs with both and compares. It touches no DOM, so it runs anywhere that JavaScript runs.
(function (root) {
  "use strict";

  const EMITTED = new Set(["accepted", "corrected", "bonus", "plain"]);
  const PHASES = ["prefill", "propose", "verify", "sample", "other"];

  const ratio = (a, b) => (b ? a / b : null);
  const sum = (values) => values.reduce((total, value) => total + value, 0);

  // (1 − a^(k+1)) / (1 − a): tokens per pass if every proposed token were accepted independently with chance a.
  // Summed term by term, as the quotient loses its digits near a = 1.
  function expectedTokensPerPass(a, k) {
    if (a === null || a === undefined) return null;
    let total = 0;
    for (let i = 0; i <= k; i++) total += Math.pow(a, i);
    return total;
  }

  class Fold {
    constructor() {
      this.start = null;
      this.done = null;
      this.rounds = []; // {number, tokens, seconds, rows, note}
      this.held = 0;
      this.prefillSeconds = 0;
      this._heldBack = []; // [{token, round}] of the tokens that are held now
    }

    // Returns the index of the first round that looks different now (rounds.length if none does).
    add(event) {
      switch (event.type) {
        case "start":
          this.start = event;
          return this.rounds.length;
        case "draft":
          return this._propose(event);
        case "verdict":
          return this._judge(event);
        case "done":
          return this._finish(event);
        default:
          return this.rounds.length;
      }
    }

    _propose(event) {
      const tokens = [];
      event.tokens.forEach((t, i) => {
        const tree = Number.isInteger(t.parent);
        const depth = !tree ? i : t.parent < 0 ? 0 : tokens[t.parent].position + 1;
        tokens.push({
          id: t.id, text: t.text, state: "pending", round: event.round, position: depth,
          parent: tree ? t.parent : null, node: tree ? i : null, proposed: t, judged: null,
        });
      });
      if (tokens.length && tokens[0].node !== null) for (const token of tokens) remember(token, tokens);
      this.rounds.push({
        number: event.round, tokens, seconds: { propose: event.seconds }, rows: tokens.length + 1,
        note: event.note ?? null, judged: false,
      });
      return this.rounds.length - 1;
    }

    // States; then the order of showing: accepted, rejected, unjudged, the extra token.
    _judge(v) {
      const round = this.rounds[this.rounds.length - 1];
      v.judged.forEach((judged, i) => {
        const token = round.tokens[judged.node ?? i];
        token.judged = judged;
        token.state = judged.accepted ? "accepted" : "rejected";
      });
      const of = (state) => round.tokens.filter((t) => t.state === state);
      const kept = [...of("accepted"), ...of("rejected")];
      if (!v.cut) {
        for (const token of of("pending")) {
          token.state = "unjudged";
          kept.push(token);
        }
      }
      if (v.extra) {
        const extra = {
          id: v.extra.id, text: v.extra.text, state: v.extra.kind, round: v.round, position: v.accepted,
          parent: null, node: null, proposed: null, judged: null, extra: v.extra,
        };
        if (round.tokens.length && round.tokens[0].tree) remember(extra, round.tokens[0].tree);
        for (const token of of("rejected")) remember(token, extra, "instead");
        kept.push(extra);
      }
      round.tokens = kept;
      round.seconds = v.seconds;
      round.judged = true;
      const changed = this._hold(v.held || 0);
      return Math.min(changed, this.rounds.length - 1);
    }

    // The last `count` emitted tokens are kept back: they may turn out to belong to a stop string.
    _hold(count) {
      const now = [];
      for (let r = this.rounds.length - 1; r >= 0 && now.length < count; r--) {
        const tokens = this.rounds[r].tokens;
        for (let i = tokens.length - 1; i >= 0 && now.length < count; i--) {
          if (EMITTED.has(tokens[i].state)) now.push({ token: tokens[i], round: r });
        }
      }
      let changed = this.rounds.length;
      for (const { token, round } of this._heldBack) {
        token.held = false;
        changed = Math.min(changed, round);
      }
      for (const { token, round } of now) {
        token.held = true;
        changed = Math.min(changed, round);
      }
      this._heldBack = now;
      this.held = count;
      return changed;
    }

    _finish(done) {
      let changed = this._hold(0);
      this.done = done;
      this.prefillSeconds = done.seconds.prefill || 0;
      let left = done.keep;
      const rounds = [];
      for (const round of this.rounds) {
        let tokens = round.tokens.filter((t) => t.state !== "pending");
        const inside = tokens.filter((t) => EMITTED.has(t.state)).length;
        if (inside > left) tokens = upTo(tokens, left); // the end lies in this round
        left -= Math.min(inside, left);
        if (tokens.length !== round.tokens.length) changed = Math.min(changed, rounds.length);
        round.tokens = tokens;
        if (tokens.length) rounds.push(round);
        if (left === 0 && inside) break;
      }
      changed = Math.min(changed, rounds.length);
      this.rounds = rounds;
      if (done.last_text !== null && done.last_text !== undefined) {
        for (let r = rounds.length - 1; r >= 0; r--) {
          const last = rounds[r].tokens.filter((t) => EMITTED.has(t.state)).pop();
          if (!last) continue;
          last.text = done.last_text;
          changed = Math.min(changed, r);
          break;
        }
      }
      return changed;
    }

    tokens() {
      return this.rounds.flatMap((r) => r.tokens);
    }

    text() {
      return this.tokens().filter((t) => EMITTED.has(t.state)).map((t) => t.text).join("");
    }

    metrics() {
      const n = { accepted: 0, rejected: 0, corrected: 0, bonus: 0, plain: 0, unjudged: 0 };
      const judged = [];
      for (const round of this.rounds) {
        if (round.judged) judged.push(round);
        for (const token of round.tokens) if (token.state in n) n[token.state] += 1;
      }
      const emitted = n.accepted + n.corrected + n.bonus + n.plain;
      const proposed = n.accepted + n.rejected + n.unjudged;
      const seconds = {};
      for (const phase of PHASES) {
        seconds[phase] = this.done ? this.done.seconds[phase] || 0 : sum(judged.map((r) => r.seconds[phase] || 0));
      }
      if (!this.done) seconds.prefill = this.prefillSeconds;
      const speculative = this.start !== null && this.start.proposer !== "none";
      const [unconditional, conditional] = byPosition(judged);
      return {
        rounds: judged.length,
        emitted,
        proposed,
        accepted: n.accepted,
        rejected: n.rejected,
        corrected: n.corrected,
        bonus: n.bonus,
        plain: n.plain,
        unjudged: n.unjudged,
        nothing_proposed: speculative ? n.plain : 0,
        acceptance_rate: ratio(n.accepted, n.accepted + n.rejected),
        draft_yield: ratio(n.accepted, proposed),
        tokens_per_pass: ratio(emitted, judged.length),
        acceptance_by_position: unconditional,
        acceptance_by_position_judged: conditional,
        seconds,
        tokens_per_second: ratio(emitted, sum(PHASES.map((p) => seconds[p])) - seconds.prefill),
      };
    }
  }

  // Each token of a tree knows the whole of it, and a rejected one what came in its place; not as one of its fields,
  // which are plain data.
  function remember(token, value, as = "tree") {
    Object.defineProperty(token, as, { value });
  }

  function upTo(tokens, keep) {
    const out = [];
    for (const token of tokens) {
      if (keep === 0) break;
      out.push(token);
      if (EMITTED.has(token.state)) keep -= 1;
    }
    return out.filter((t) => EMITTED.has(t.state));
  }

  // Per round the best state at each position: in a tree several tokens share one, and one of them may stand.
  function byPosition(rounds) {
    const ranking = ["accepted", "rejected", "unjudged"];
    const proposals = rounds.map((r) => {
      const at = [];
      for (const t of r.tokens) {
        const rank = ranking.indexOf(t.state);
        if (rank >= 0) at[t.position] = Math.min(rank, at[t.position] ?? rank);
      }
      return at;
    });
    const unconditional = [];
    const conditional = [];
    const longest = proposals.reduce((most, p) => Math.max(most, p.length), 0);
    for (let i = 0; i < longest; i++) {
      const at = proposals.map((p) => p[i]).filter((rank) => rank !== undefined);
      const accepted = at.filter((rank) => rank === 0).length;
      const rejected = at.filter((rank) => rank === 1).length;
      unconditional.push(accepted / at.length);
      conditional.push(ratio(accepted, accepted + rejected));
    }
    return [unconditional, conditional];
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { Fold, EMITTED, expectedTokensPerPass });
})(typeof globalThis === "undefined" ? this : globalThis);
