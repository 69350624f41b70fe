// What all plots have in common: their colours, which are the page's, how they are drawn, and how they are saved.
//
// Plotly reads a little markup in every text that it shows; whatever comes from a model or a person goes through
// `literal` before it gets there.
(function (root) {
  "use strict";

  const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up"];
  const FONT = 12.5;

  const literal = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

  // The page's colours as they are now, light or dark.
  function palette(element) {
    const style = getComputedStyle(element);
    const of = (name) => style.getPropertyValue("--sp-" + name).trim();
    return {
      ink: of("ink"), muted: of("muted"), line: of("line"), card: of("card"), font: style.fontFamily,
      panels: [1, 2, 3, 4].map((i) => of("plot-" + i)),
      phase: (name) => of("plot-" + name), state: (name) => of("plot-" + name),
    };
  }

  // A panel keeps its colour and its mark in every plot; beyond four they begin anew.
  const panelLook = (colours, i) => ({ colour: colours.panels[i % 4], symbol: SYMBOLS[i % 4] });

  function axis(colours, title, more) {
    return {
      title: { text: title, standoff: 8, font: { size: FONT, color: colours.ink } }, automargin: true, fixedrange: true,
      gridcolor: colours.line, linecolor: colours.muted, tickcolor: colours.muted, zeroline: false, showline: true,
      ticks: "outside", ticklen: 4, tickfont: { size: FONT, color: colours.ink }, ...more,
    };
  }

  // Legend above, so that a narrow screen loses no width; dragging does nothing, so that a finger can scroll.
  function layout(colours, more) {
    return {
      paper_bgcolor: colours.card, plot_bgcolor: colours.card, dragmode: false, hovermode: "closest",
      font: { family: colours.font, size: FONT, color: colours.ink }, margin: { l: 50, r: 12, t: 34, b: 44 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom",
        font: { size: FONT, color: colours.ink }, itemclick: false, itemdoubleclick: false },
      hoverlabel: { bgcolor: colours.card, bordercolor: colours.muted, font: { color: colours.ink, size: FONT } },
      ...more,
    };
  }

  // Draws, or draws anew what has changed. `label` says the plot to who cannot see it.
  function draw(plotly, node, traces, made, label) {
    node.setAttribute("role", "img");
    node.setAttribute("aria-label", label);
    node.spFigure = { traces, layout: made };
    return plotly.react(node, traces, { ...made, width: Math.max(240, node.clientWidth) }, CONFIG);
  }

  // As a picture of its own it needs its title, and room for it.
  function savePng(plotly, node, title, name) {
    const { traces, layout: made } = node.spFigure;
    const narrow = node.clientWidth < 480;
    const headed = {
      ...made, width: node.clientWidth, height: made.height + 34, margin: { ...made.margin, t: made.margin.t + 34 },
      title: { text: literal(title), x: 0.02, xanchor: "left", y: 0.98, yanchor: "top",
        font: { size: narrow ? 13 : 16, color: made.font.color } },
    };
    return plotly.downloadImage({ data: traces, layout: headed, config: CONFIG }, {
      format: "png", width: headed.width, height: headed.height, scale: 2, filename: name,
    });
  }

  // `text` as a file. The mark at its beginning tells spreadsheets that it is UTF-8.
  function saveText(text, name, type) {
    const address = URL.createObjectURL(new Blob(["\ufeff", text], { type: type + ";charset=utf-8" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  // Calls `redraw` when the page turns light or dark, or `element` gets another width (at first, from none).
  function onLook(element, redraw) {
    new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["class"] });
    let width = element.clientWidth;
    new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      if (width) redraw();
    }).observe(element);
  }

  root.SpecPlay = Object.assign(root.SpecPlay, {
    plotKit: { FONT, axis, draw, layout, literal, onLook, palette, panelLook, savePng, saveText },
  });
})(globalThis);
