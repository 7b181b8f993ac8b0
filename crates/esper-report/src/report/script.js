"use strict";
// What a mark stands for, beside the pointer or under the finger. Without this script the marks' own titles say it.
const says = document.getElementById("says");
document.querySelectorAll("[data-says] > title").forEach((title) => title.remove());
function show(event) {
  const mark = event.target.closest ? event.target.closest("[data-says]") : null;
  if (!mark) { says.style.display = "none"; return; }
  says.textContent = mark.dataset.says;
  says.style.display = "block";
  const box = says.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
  const y = event.clientY > box.height + 20 ? event.clientY - box.height - 12 : event.clientY + 18;
  says.style.left = Math.max(4, x) + "px";
  says.style.top = y + "px";
}
// On paper nothing can be opened.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((hidden) => { hidden.open = true; }));
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
