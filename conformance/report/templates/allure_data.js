// Hands Allure's program its data, part by part: see conformance/report/allure_pack.py.
(() => {
  const arrived = new Map(), parts = new Map();
  window.allurePart = (name, packed) => {
    const octets = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
    arrived.set(name, new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).json());
  };
  const load = (name) => {
    if (!parts.has(name)) {
      parts.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = `data/${name}.js`;
        script.onload = () => resolve(arrived.get(name));
        script.onerror = () => reject(new Error(`the part ${name} of the report is not there`));
        document.head.append(script);
      }));
    }
    return parts.get(name);
  };
  const base64 = (text) => {
    const octets = new TextEncoder().encode(text), pieces = [];
    for (let at = 0; at < octets.length; at += 32768) pieces.push(String.fromCharCode(...octets.subarray(at, at + 32768)));
    return btoa(pieces.join(""));
  };
  const linked = (text) => {
    const result = JSON.parse(text);
    for (const link of result.links || []) link.url = new URL(link.url, location.href).href;
    return JSON.stringify(result);
  };
  const file = async (key) => {
    const path = key.replaceAll("\\", "/");
    const files = await load(path.startsWith("data/") ? path.split("/").pop().slice(0, 2) : "widgets");
    if (!(path in files)) throw new Error(`${path} is not in the report`);
    if (Array.isArray(files[path])) return files[path][0];
    return base64(path.startsWith("data/test-results/") ? linked(files[path]) : files[path]);
  };
  window.allureReportData = new Proxy({}, {
    has: () => true,
    get: (_, key) => (typeof key === "string" ? file(key) : undefined),
  });
})();
