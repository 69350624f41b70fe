// What the page's fields hold, as one object (a preset), and back. The same form is a lesson's start, and the address's.
//
// {prompt, max_tokens, seed, panels: [settings, ...]}, a panel's settings being those of engines/settings.py that differ
// from the defaults. Fields travel as gradio has them: prompt, max tokens, seed, then each panel's, in one list.
(function (root) {
  "use strict";

  const { shared, ranges } = root.SpecPlay;
  const { fields: FIELDS, letters: LETTERS, defaults: DEFAULTS } = shared;
  const COMMON = 3;
  const SAMPLING = ["temperature", "top_k", "top_p", "min_p", "repetition_penalty"];
  // What the fields take: beyond it an address is not believed.
  const BOUNDS = {
    k: [1, shared.mostK], temperature: [0, 2], top_k: [0, 1e6], top_p: [0.01, 1], min_p: [0, 1],
    repetition_penalty: [0.01, 10], ngram_min: [1, 64], ngram_max: [1, 64], branch: [0, 16],
  };
  const WHOLE = new Set(["k", "top_k", "ngram_min", "ngram_max", "branch"]);
  const MOST_CHARACTERS = 100_000; // of a prompt
  const MOST_ADDRESS = 30_000;

  const standard = (name) => (SAMPLING.includes(name) ? DEFAULTS.sampling[name] : DEFAULTS[name]);

  // Panel number i's fields by their names.
  function panelFields(all, i) {
    const at = COMMON + i * FIELDS.length;
    return Object.fromEntries(FIELDS.map((name, n) => [name, all[at + n]]));
  }

  function withPanel(all, i, form) {
    const out = [...all];
    const at = COMMON + i * FIELDS.length;
    FIELDS.forEach((name, n) => {
      if (form[name] !== undefined) out[at + n] = form[name];
    });
    return out;
  }

  function settingsOf(form) {
    const out = {};
    const sampling = {};
    for (const name of FIELDS) {
      let value = form[name];
      if (name === "skip_layers") {
        value = String(value || "").trim();
        if (value) out[name] = value;
      } else if (name === "draft") {
        if (form.proposer === "draft" && value) out[name] = value;
      } else if (value !== standard(name)) (SAMPLING.includes(name) ? sampling : out)[name] = value;
    }
    if (Object.keys(sampling).length) out.sampling = sampling;
    return out;
  }

  // Of a value that a person may have typed into the address: one of the kind that the field holds, or its default.
  function fitting(name, value) {
    const usual = standard(name);
    if (name === "skip_layers") return Array.isArray(value) ? ranges(value.filter(Number.isInteger)) : typeof value === "string" ? value : "";
    if (name === "draft") return typeof value === "string" ? value : undefined;
    if (name === "proposer") return value in shared.proposers ? value : usual;
    if (name === "verify") return ["token", "block"].includes(value) ? value : usual;
    if (typeof value !== typeof usual || (typeof value === "number" && !Number.isFinite(value))) return usual;
    const [low, high] = BOUNDS[name] || [];
    return low === undefined ? value : Math.max(low, Math.min(high, WHOLE.has(name) ? Math.round(value) : value));
  }

  function formOf(settings) {
    const given = settings && typeof settings === "object" ? settings : {};
    const flat = { ...given, ...(given.sampling && typeof given.sampling === "object" ? given.sampling : {}) };
    return Object.fromEntries(FIELDS.map((name) => [name, fitting(name, flat[name])]));
  }

  function presetOf(all, count) {
    const [prompt, max_tokens, seed] = all;
    const panels = [...Array(count).keys()].map((i) => settingsOf(panelFields(all, i)));
    return { prompt, max_tokens, seed, panels };
  }

  // The fields with a preset put in; what it leaves out stays, and what it says too much of is left out.
  function fieldsOf(preset, all) {
    let out = [...all];
    if (typeof preset.prompt === "string") out[0] = preset.prompt.slice(0, MOST_CHARACTERS);
    if (Number.isInteger(preset.max_tokens)) out[1] = Math.max(1, Math.min(shared.mostTokens, preset.max_tokens));
    if (Number.isInteger(preset.seed) && preset.seed >= 0) out[2] = preset.seed;
    panelsOf(preset).forEach((settings, i) => (out = withPanel(out, i, formOf(settings))));
    return out;
  }

  const panelsOf = (preset) => (Array.isArray(preset.panels) ? preset.panels.slice(0, LETTERS.length) : []);

  // The part of an address behind its "#". A prompt that is too long for one is left out.
  function addressOf(preset) {
    const all = "#" + encodeURIComponent(JSON.stringify(preset));
    return all.length <= MOST_ADDRESS ? all : "#" + encodeURIComponent(JSON.stringify({ ...preset, prompt: undefined }));
  }

  // The preset in an address; null when it has none, or one that nobody can read.
  function presetIn(hash) {
    try {
      const preset = JSON.parse(decodeURIComponent(hash.slice(1)));
      return preset && typeof preset === "object" && !Array.isArray(preset) ? preset : null;
    } catch (error) {
      return null;
    }
  }

  root.SpecPlay = Object.assign(root.SpecPlay, {
    addressOf, fieldsOf, formOf, panelFields, panelsOf, presetIn, presetOf, withPanel,
  });
})(typeof globalThis === "undefined" ? this : globalThis);
