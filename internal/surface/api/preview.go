package api

import "time"

// Port of a session that is declared by its recipe, or listens, or both.
type Port struct {
	Port      int    `json:"port"`
	Name      string `json:"name,omitempty"`
	Service   string `json:"service,omitempty"`
	Declared  bool   `json:"declared"`
	Listening bool   `json:"listening"`
	URL       string `json:"url,omitempty" doc:"where the app is for a browser that has entered; absent where that differs from person to person"`
}

// Ports of a session.
type Ports struct {
	Items []Port `json:"items"`
	Awake bool   `json:"awake" doc:"a sandbox runs; otherwise nothing listens"`
}

// OpenPreview asks for a way into a preview.
type OpenPreview struct {
	Port int  `json:"port" minimum:"1" maximum:"65535"`
	Any  bool `json:"any,omitempty" doc:"also a port that the recipe does not declare"`
}

// Preview is a way in for one browser, once.
type Preview struct {
	URL      string    `json:"url" doc:"with a ticket that works once"`
	Port     int       `json:"port"`
	Declared bool      `json:"declared"`
	Weak     bool      `json:"weak" doc:"it shares its host name with other previews and the control plane, whose cookies do not know ports"`
	Expires  time.Time `json:"expires"`
}
