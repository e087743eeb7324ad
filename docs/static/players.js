// Links to sounds become players; on GitHub they stay links.
document.querySelectorAll('article a[href$=".mp3"], article a[href$=".wav"]').forEach((link) => {
  const player = document.createElement("audio");
  player.controls = true;
  player.preload = "none";
  player.src = link.href;
  player.setAttribute("aria-label", link.textContent);
  const place = document.createElement("span");
  place.className = "player";
  link.replaceWith(place);
  place.append(link, player);
});
