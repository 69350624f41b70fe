// A recorded run on a clock: at which second of its decoding each of its events is to be seen.
//
// The prompt's own pass is left out, as in all times on the page. A round's proposal shows when proposing it is done, its
// verdict when all of the round is.
(function (root) {
  "use strict";

  // [second, ...], one for each event.
  function timeline(events) {
    let now = 0;
    return events.map((event) => {
      if (event.type === "draft") return now + event.seconds;
      if (event.type === "verdict") now += Object.values(event.seconds).reduce((all, s) => all + s, 0);
      return now;
    });
  }

  // How many of the events are to be seen at second `t`.
  function countAt(times, t) {
    let [low, high] = [0, times.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] <= t) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The next second after `t` (before it, if `by` is -1) at which something of this run changes; null if nothing does.
  function nextAt(times, t, by = 1) {
    const some = by > 0 ? times.find((at) => at > t) : times.findLast((at) => at < t);
    return some === undefined ? null : some;
  }

  root.SpecPlay = Object.assign(root.SpecPlay || {}, { timeline, countAt, nextAt });
})(typeof globalThis === "undefined" ? this : globalThis);
