// Plotly's library, loaded from the program itself when something is to be drawn for the first time.
(function (root) {
  "use strict";

  let library = null;

  // A promise of the library.
  function plotly() {
    library ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL("plotly.min.js", location.origin + location.pathname.replace(/\/?$/, "/"));
      script.onload = () => resolve(root.Plotly);
      script.onerror = () => {
        library = null;
        reject(new Error("The plots' library could not be loaded: reload the page."));
      };
      document.head.appendChild(script);
    });
    return library;
  }

  root.SpecPlay = Object.assign(root.SpecPlay, { plotly });
})(globalThis);
