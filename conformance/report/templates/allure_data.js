// Loads the data of Allure's program on demand, part by part; conformance/report/allure_pack.py writes the parts.
(() => {
  const received = new Map(), parts = new Map();
  window.allurePart = (name, packed) => {
    const octets = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
    received.set(name, new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).json());
  };
  const load = (name) => {
    if (!parts.has(name)) {
      parts.set(name, new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = `data/${name}.js`;
        script.onload = () => resolve(received.get(name));
        script.onerror = () => reject(new Error(`the part ${name} of the report is missing`));
        document.head.append(script);
      }));
    }
    return parts.get(name);
  };
  const base64 = (text) => {
    const octets = new TextEncoder().encode(text), pieces = [];
    for (let start = 0; start < octets.length; start += 32768) {
      pieces.push(String.fromCharCode(...octets.subarray(start, start + 32768)));
    }
    return btoa(pieces.join(""));
  };
  const withAbsoluteLinks = (text) => {
    const result = JSON.parse(text);
    for (const link of result.links || []) link.url = new URL(link.url, location.href).href;
    return JSON.stringify(result);
  };
  const file = async (key) => {
    const path = key.replaceAll("\\", "/");
    const files = await load(path.startsWith("data/") ? path.split("/").pop().slice(0, 2) : "widgets");
    if (!(path in files)) throw new Error(`${path} is not in the report`);
    if (Array.isArray(files[path])) return files[path][0];
    return base64(path.startsWith("data/test-results/") ? withAbsoluteLinks(files[path]) : files[path]);
  };
  window.allureReportData = new Proxy({}, {
    has: () => true,
    get: (_, key) => (typeof key === "string" ? file(key) : undefined),
  });
})();
