// Links to sounds become players; on GitHub they stay links.
document.querySelectorAll('a.download[href$=".mp3"], a.download[href$=".wav"]').forEach((link) => {
  const player = document.createElement("audio");
  player.controls = true;
  player.preload = "none";
  player.src = link.href;
  player.setAttribute("aria-label", link.textContent);
  const place = document.createElement("span");
  place.className = "player";
  link.replaceWith(place);
  link.replaceChildren(link.textContent);
  place.append(link, player);
  const rest = place.nextSibling; // the comma or full stop after a link
  if (rest?.nodeType === Node.TEXT_NODE) rest.textContent = rest.textContent.replace(/^[,.;]\s*/, " ");
});
