// The server's API, relative to the address of the page, which holds the token.

async function answer(response) {
  if (response.ok) return response;
  let sentence = `the server answered ${response.status}`;
  try { sentence = (await response.json()).error ?? sentence; } catch { /* no JSON */ }
  throw new Error(sentence);
}

export async function server() {
  return (await answer(await fetch("api/server"))).json();
}

export async function sample() {
  return (await answer(await fetch("sample.flac"))).blob();
}

export async function state(id) {
  return (await answer(await fetch(`api/recordings/${id}`))).json();
}

export async function remove(id) {
  await fetch(`api/recordings/${id}`, { method: "DELETE", keepalive: true }); // also when the page is left
}

export async function preview(id, second) {
  await answer(await fetch(`api/recordings/${id}/preview?start=${second}`, { method: "POST" }));
}

export async function startEcho(id) {
  return (await answer(await fetch(`api/recordings/${id}/echo`, { method: "POST" }))).json();
}

export async function stopEcho(id) {
  return (await answer(await fetch(`api/recordings/${id}/echo`, { method: "DELETE" }))).json();
}

// With echo = 1, the speech without echo comes, too.
export async function sound(id, start, frames, echo) {
  const response = await answer(await fetch(`api/recordings/${id}/sound?start=${start}&frames=${frames}&echo=${echo}`));
  return { speech: response.headers.get("x-speech"), data: new Float32Array(await response.arrayBuffer()) };
}

export async function picture(id, of, first) {
  const response = await answer(await fetch(`api/recordings/${id}/picture?of=${of}&first=${first}`));
  return new Uint8Array(await response.arrayBuffer());
}

// mix: dry, format, loudness and echo.
export function resultAddress(id, mix) {
  return `api/recordings/${id}/result?${new URLSearchParams(mix)}`;
}

// Have a download written; what the server says against it is in the answer to GET alone.
export async function prepare(address) {
  const response = await fetch(address, { method: "HEAD" });
  if (!response.ok) await answer(await fetch(address));
}

export function archiveAddress(items) {
  const query = new URLSearchParams();
  for (const { id, mix } of items) {
    for (const [name, value] of Object.entries({ id, ...mix })) query.append(name, value);
  }
  return `api/archive?${query}`;
}

// fetch() does not tell how much of a body has been sent.
export function upload(file, name, options, progress) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.onprogress = (event) => progress(event.loaded / event.total);
    request.onerror = () => reject(new Error("the server cannot be reached, or has ended the upload"));
    request.onabort = () => reject(new Error("cancelled"));
    request.onload = () => {
      let found = {};
      try { found = JSON.parse(request.responseText); } catch { /* no JSON */ }
      if (request.status === 201) resolve(found);
      else reject(new Error(found.error ?? `the server answered ${request.status}`));
    };
  });
  request.open("POST", `api/recordings?${new URLSearchParams({ ...options, name })}`);
  request.setRequestHeader("content-type", "application/octet-stream");
  request.send(file);
  return { done, cancel: () => request.abort() };
}

// The states of recordings as they change. A browser has six connections to a server for all of its
// tabs, so a page that is hidden, left, or has nothing to wait for holds none.
export class Events {
  constructor(changed, removed) {
    this.changed = changed;
    this.removed = removed;
    this.ids = [];
    document.addEventListener("visibilitychange", () => this.connect());
    addEventListener("pagehide", () => this.source?.close());
    addEventListener("pageshow", (event) => { if (event.persisted) this.connect(); });
  }

  watch(ids) {
    if (ids.join() === this.ids.join()) return;
    this.ids = ids;
    this.connect();
  }

  connect() {
    this.source?.close();
    this.source = null;
    if (!this.ids.length || document.hidden) return;
    const query = new URLSearchParams(this.ids.map((id) => ["id", id]));
    this.source = new EventSource(`api/events?${query}`);
    this.source.addEventListener("state", (event) => this.changed(JSON.parse(event.data)));
    this.source.addEventListener("removed", (event) => this.removed(JSON.parse(event.data).id));
  }
}
