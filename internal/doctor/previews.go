package doctor

// previews says how far apart the page and the apps are that it shows.
func (d *doctor) previews() Check {
	const means = "What an app of a repository does in a browser could reach the page, and what you may do there."
	web := d.opts.Config.Web
	shared, sameSite := d.opts.Config.Apart()
	switch {
	case web.PreviewMode == "off":
		return ok("previews", "off")
	case shared != "":
		return lack("previews", shared, means, "give web.preview_listen a port, and web.preview_url a domain, of their own")
	case sameSite != "":
		return warn("previews", sameSite, "An app can set cookies that the page gets too. It does not believe them, but can be signed out.", "give web.preview_url a domain of its own")
	case web.PublicURL != "" && web.PreviewURL == "":
		return warn("previews", "at *.localhost, while the page is at "+web.PublicURL, "Only browsers on this host can open previews.", "set web.preview_url to a wildcard name, or web.preview_mode to listeners")
	case web.PreviewURL != "":
		return ok("previews", "%s, apart from the page", web.PreviewURL)
	}
	return ok("previews", "http://*.localhost on a port of their own")
}
