package browser

import (
	"encoding/json"
	"testing"
)

// Events come from a browser that runs whatever a branch serves.
func FuzzEvents(f *testing.F) {
	f.Add("Network.responseReceived", `{"requestId":"1","type":"Document","response":{"status":404,"url":"http://x/?q"}}`)
	f.Add("Runtime.consoleAPICalled", `{"type":"error","args":[{"value":"a"},{"description":"b\nc"}]}`)
	f.Add("Runtime.exceptionThrown", `{"exceptionDetails":{"text":"Uncaught"}}`)
	f.Add("Log.entryAdded", `{"entry":{"level":"error","source":"security","text":"x"}}`)
	f.Fuzz(func(t *testing.T, method, params string) {
		p := &page{b: &Browser{}, inflight: map[string]string{}}
		for range 3 {
			p.event(event{Method: method, Params: json.RawMessage(params)})
		}
		if len(p.console) > maxLines || len(p.failed) > maxLines {
			t.Error("too many lines")
		}
		for _, line := range append(p.console, p.failed...) {
			if len(line) > 600 {
				t.Errorf("a line of %d bytes", len(line))
			}
		}
	})
}
