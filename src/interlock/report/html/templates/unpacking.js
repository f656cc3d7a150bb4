"use strict";
// Data and Vega are in this file as gzip in base64. What is unpacked runs as a script of the page itself.
async function unpacked(id) {
  const place = document.getElementById(id);
  const bytes = Uint8Array.from(atob(place.textContent.trim()), (one) => one.charCodeAt(0));
  place.remove();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
function run(text) {
  document.head.append(Object.assign(document.createElement("script"), { textContent: text }));
}
(async () => {
  const [data, bundle] = await Promise.all([unpacked("report-data"), unpacked("bundle")]);
  window.reportText = data;
  run(bundle);
  run(document.getElementById("code").textContent);
})();
