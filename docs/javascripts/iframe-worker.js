// Search from disk: browsers start no worker for a page that was opened as a file, so the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      this.ready = new Promise((done) => {
        const script = inner.document.createElement("script");
        script.src = url;
        script.onload = done;
        inner.document.body.append(script);
      });
    }
    postMessage(data) {
      const inner = this.frame.contentWindow;
      this.ready.then(() => inner.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
