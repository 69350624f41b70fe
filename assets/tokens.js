// Coloured tokens: what a fold holds -> DOM nodes. Text enters by text nodes only, so it is always literal.
//
// Three levels. A *chain* is a run of tokens whose texts follow one another: what stands in the output (pending
// tokens included), or what was refused in one round. An *item* is a piece of a chain that ends where a grapheme
// ends, so an emoji, a Korean or a Devanagari syllable that is spread over several tokens, or bytes of a character,
// is one item. A *piece* is what becomes one element: text that belongs to one token, or one grapheme that several
// tokens share, under which each of them has a bar of its own.
(function (root) {
  "use strict";

  const { EMITTED } = root.SpecPlay;
  const REFUSED = new Set(["rejected", "unjudged"]);
  const MARKS = { corrected: "\u21bb", bonus: "\u2726" };
  const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });

  // Whether the boundary between the two texts lies inside a grapheme. CR LF is one, but not to the eye.
  function torn(before, after) {
    if (!before || !after) return false;
    const tail = before.slice(-64);
    if (tail.endsWith("\r") && after.startsWith("\n")) return false;
    const joined = tail + after.slice(0, 64);
    // ASCII on both sides cannot join, and is nearly everything.
    if (joined.charCodeAt(tail.length - 1) < 128 && joined.charCodeAt(tail.length) < 128) return false;
    return segmenter.segment(joined).containing(tail.length).index !== tail.length;
  }

  // The name of a special token, such as <|im_end|>, that was proposed: it adds no text. "" for any other token.
  function specialText(token) {
    const piece = (token.proposed && token.proposed.piece) || "";
    return piece.includes("\ufffd") ? "" : piece; // half a character
  }

  // Tokens in the order of display -> items {tokens, text, refused}.
  function itemsOf(tokens) {
    const items = [];
    let keptLast = null;
    let refusedLast = null;
    for (const token of tokens) {
      const refused = REFUSED.has(token.state);
      let last = refused ? refusedLast : keptLast;
      if (refused && last && last.tokens[0].round !== token.round) last = null;
      // In a tree a refused token follows its parent, which need not be the one drawn before it.
      if (refused && last && token.node !== null && last.tokens[last.tokens.length - 1].node !== token.parent) last = null;
      if (last && last.text === "" && !whole(last) && mayComplete(token.text) && !specialText(token)) {
        // Bytes of a character wait for the rest of it.
        last.tokens.push(token);
        last.text = token.text;
        moveToEnd(items, last);
        mergeBack(items, last);
      } else if (last && token.text !== "" && torn(last.text, token.text)) {
        last.tokens.push(token);
        last.text += token.text;
        moveToEnd(items, last);
      } else {
        last = { tokens: [token], text: token.text, refused };
        items.push(last);
      }
      if (refused) refusedLast = last;
      else {
        keptLast = last;
        refusedLast = null;
      }
    }
    return items;
  }

  // Nothing in ASCII has two halves.
  const mayComplete = (text) => text === "" || text.charCodeAt(0) > 127;
  const whole = (item) => item.tokens.some((t) => t.end || specialText(t));

  // Refused tokens stand between the two halves of an item that goes on after them: it is shown behind them.
  function moveToEnd(items, item) {
    if (items[items.length - 1] === item) return;
    items.splice(items.lastIndexOf(item), 1);
    items.push(item);
  }

  // Once the waiting bytes have become text, they may turn out to go on with the grapheme before them.
  function mergeBack(items, item) {
    for (let i = items.length - 2; i >= 0; i--) {
      const before = items[i];
      if (before.refused !== item.refused) continue;
      if (before.tokens[0].round !== item.tokens[0].round && item.refused) return;
      if (!torn(before.text, item.text)) return;
      item.tokens = before.tokens.concat(item.tokens);
      item.text = before.text + item.text;
      items.splice(i, 1);
      return;
    }
  }

  // An item's text, cut where its owners change: [{text, owners: [token, ...]}].
  function piecesOf(item) {
    if (item.tokens.length === 1) return [{ text: item.text, owners: item.tokens }];
    const spans = [];
    let at = 0;
    for (const token of item.tokens) {
      spans.push({ token, from: at, to: at + token.text.length });
      at += token.text.length;
    }
    const pieces = [];
    const placed = new Set();
    for (const { segment, index } of segmenter.segment(item.text)) {
      const end = index + segment.length;
      const owners = spans.filter((s) => (s.from < end && s.to > index) || (s.from === s.to && s.from === index
        && !placed.has(s.token))).map((s) => s.token);
      owners.forEach((t) => placed.add(t));
      const last = pieces[pieces.length - 1];
      if (last && owners.length === 1 && last.owners.length === 1 && last.owners[0] === owners[0]) last.text += segment;
      else pieces.push({ text: segment, owners });
    }
    const rest = item.tokens.filter((t) => !placed.has(t));
    if (rest.length) pieces.push({ text: "", owners: rest });
    return pieces;
  }

  function element(tag, classes, text) {
    const node = document.createElement(tag);
    node.className = classes;
    if (text !== undefined) node.appendChild(document.createTextNode(text));
    return node;
  }

  // Each line break gets a faint sign by CSS, which no copy takes along.
  function appendText(node, text) {
    if (!text.includes("\n")) {
      node.appendChild(document.createTextNode(text));
      return;
    }
    for (const part of text.split(/(\n)/)) {
      if (part === "\n") node.appendChild(element("span", "sp-nl", part));
      else if (part) node.appendChild(document.createTextNode(part));
    }
  }

  function mark(token) {
    const node = element("i", "sp-mark");
    node.dataset.mark = MARKS[token.state];
    return node;
  }

  function pieceNode(piece, lastOf) {
    const [first] = piece.owners;
    if (piece.owners.length === 1) {
      let classes = "sp-t sp-" + first.state;
      if (first.end) classes += " sp-end";
      const special = piece.text === "" && !EMITTED.has(first.state) ? specialText(first) : "";
      if (special) classes += " sp-special";
      else if (piece.text === "" && !first.end) classes += " sp-sliver";
      const node = element("span", classes, special || undefined);
      own(node, first);
      const lineEnd = MARKS[first.state] && lastOf.has(first) ? piece.text.search(/\n+$/) : -1;
      if (MARKS[first.state] && lastOf.has(first)) {
        appendText(node, lineEnd < 0 ? piece.text : piece.text.slice(0, lineEnd));
        node.appendChild(mark(first));
        if (lineEnd >= 0) appendText(node, piece.text.slice(lineEnd));
      } else appendText(node, piece.text);
      return node;
    }
    const node = element("span", "sp-shared");
    if (piece.owners.every((t) => REFUSED.has(t.state))) node.classList.add("sp-refused");
    const bars = node.appendChild(element("i", "sp-bars"));
    for (const token of piece.owners) {
      own(bars.appendChild(element("i", "sp-bar sp-" + token.state)), token);
    }
    node.appendChild(element("span", "sp-glyph", piece.text));
    const marked = piece.owners.find((t) => MARKS[t.state] && lastOf.has(t));
    if (marked) node.appendChild(mark(marked));
    return node;
  }

  function own(node, token) {
    const emitted = EMITTED.has(token.state);
    node.dataset.token = token.round + "." + (emitted ? token.position : (token.node ?? token.position) + "p");
    node.spToken = token;
  }

  function itemNodes(item) {
    const pieces = piecesOf(item);
    const lastPiece = new Map();
    pieces.forEach((piece, i) => piece.owners.forEach((t) => lastPiece.set(t, i)));
    return pieces.map((piece, i) => pieceNode(piece, new Set(piece.owners.filter((t) => lastPiece.get(t) === i))));
  }

  // Shows a fold in `container`, and keeps it shown while the fold grows.
  class TokenText {
    constructor(container) {
      this.container = container;
      this.items = []; // as itemsOf, and `nodes` of each
    }

    clear() {
      this.container.replaceChildren();
      this.items = [];
    }

    // Rounds from index `from` on may have changed, or gone; those before it have not.
    update(fold, from) {
      if (from > fold.rounds.length) return;
      const before = fold.rounds[from - 1];
      const first = this._takeBack(before ? before.number + 1 : -Infinity);
      let at = Math.min(from, fold.rounds.length);
      while (at > 0 && fold.rounds[at - 1].number >= first) at -= 1;
      const tokens = fold.rounds.slice(at).flatMap((r) => r.tokens).filter((t) => !t.held);
      this._markEnd(fold, tokens);
      const fresh = itemsOf(tokens);
      let round = this.items.length ? this._roundOf(this.items[this.items.length - 1]) : null;
      for (const item of fresh) {
        item.nodes = itemNodes(item);
        const now = item.tokens[0].round;
        // A hairline where a round begins that is more than the target's own single token.
        if (round !== null && now !== round && (this._wide(fold, now) || this._wide(fold, round))) {
          item.nodes[0].classList.add("sp-round");
        }
        round = this._roundOf(item);
        this._append(item);
      }
    }

    // A block for each line of the output: the browser then lays out the last one alone when something is added.
    _append(item) {
      let line = this.container.lastElementChild;
      const before = this.items[this.items.length - 1];
      if (!line || (before && !before.refused && before.text.endsWith("\n"))) {
        line = this.container.appendChild(element("div", "sp-line"));
      }
      line.append(...item.nodes);
      this.items.push(item);
    }

    _roundOf(item) {
      return item.tokens[item.tokens.length - 1].round;
    }

    _wide(fold, number) {
      const round = fold.rounds.findLast((r) => r.number === number);
      return Boolean(round) && round.rows > 1;
    }

    // Remove the items that hold a token of round `number` or later, and the last one before them, as what comes may
    // go on with its grapheme. Returns the round from which everything is to be drawn anew. Items stand in the order
    // of their last tokens, so those to be removed are the last ones.
    _takeBack(number) {
      let first = number;
      const removeFrom = () => {
        while (this.items.length) {
          const { tokens } = this.items[this.items.length - 1];
          if (tokens[tokens.length - 1].round < first) return;
          first = Math.min(first, tokens[0].round);
          this._remove();
        }
      };
      removeFrom();
      const last = this.items.findLast((item) => !item.refused && item.text !== "");
      first = last ? Math.min(first, last.tokens[0].round) : -Infinity;
      removeFrom();
      return first;
    }

    _remove() {
      const { nodes } = this.items.pop();
      const line = nodes[0].parentNode;
      for (const node of nodes) node.remove();
      if (!line.firstChild) line.remove();
    }

    // The end-of-sequence token adds no text: it is shown as a sign.
    _markEnd(fold, tokens) {
      if (!fold.done || fold.done.reason !== "eos") return;
      const last = tokens.filter((t) => EMITTED.has(t.state)).pop();
      if (last && last.text === "") last.end = true;
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { TokenText, itemsOf, piecesOf, specialText });
})(globalThis);
