// Keeps the page's own files, so that it works without a network after the first visit. FILES and
// VERSION are filled in when the page is built.

const VERSION = "@VERSION@";
const FILES = [/* @FILES@ */];

oninstall = (event) => {
  event.waitUntil(caches.open(VERSION).then((cache) => cache.addAll(FILES)).then(() => skipWaiting()));
};

onactivate = (event) => {
  const old = (names) => names.filter((name) => name.startsWith("alphamf-") && name !== VERSION);
  event.waitUntil(caches.keys().then((names) => Promise.all(old(names).map((name) => caches.delete(name)))).then(() => clients.claim()));
};

onfetch = (event) => {
  event.respondWith(caches.match(event.request, { ignoreSearch: true }).then((kept) => kept ?? fetch(event.request)));
};
