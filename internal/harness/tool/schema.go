package tool

import (
	"encoding/json"

	"drydock/internal/harness/model"
)

func define(name, description, schema string) model.Tool {
	return model.Tool{Name: name, Description: description, Schema: json.RawMessage(schema)}
}

var (
	runTool = define("run",
		`Run a shell command in the sandbox and return its merged output and exit code. The working directory is /workspace unless cwd is given; every call is a new shell. A command is killed after timeout seconds (default 120, at most 1800). With background it goes on running and you get a process id. Long outputs are cut in the middle and can be read whole with process.`,
		`{"type":"object","properties":{"command":{"type":"string","description":"for sh -c"},"cwd":{"type":"string"},"timeout":{"type":"integer","description":"seconds"},"background":{"type":"boolean"}},"required":["command"],"additionalProperties":false}`)
	processTool = define("process",
		`Look at or stop a process that run started. output returns what it wrote (with offset and limit: that range of bytes), wait waits until it ends or seconds have passed, stop ends it and its children.`,
		`{"type":"object","properties":{"id":{"type":"string"},"action":{"type":"string","enum":["output","wait","stop"]},"offset":{"type":"integer"},"limit":{"type":"integer"},"seconds":{"type":"integer"}},"required":["id","action"],"additionalProperties":false}`)
	readTool = define("read",
		`Read a text file with line numbers, or look at a picture (PNG, JPEG, GIF, WebP). offset is the first line, limit the number of lines.`,
		`{"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer"},"limit":{"type":"integer"}},"required":["path"],"additionalProperties":false}`)
	editTool = define("edit",
		`Replace a piece of text in a file. old must be exactly what is in the file, without line numbers, and be there once, unless replace_all is set.`,
		`{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"},"replace_all":{"type":"boolean"}},"required":["path","old","new"],"additionalProperties":false}`)
	patchTool = define("patch",
		`Change one or several files at once: all of it is applied, or nothing. Takes a unified diff (--- a/PATH, +++ b/PATH, @@), or the form "*** Begin Patch", "*** Update File: PATH" (or Add File, Delete File), hunks of lines that begin with space, - or +, "*** End Patch". Line numbers and counts need not be right; the unchanged lines around a change must be.`,
		`{"type":"object","properties":{"patch":{"type":"string"}},"required":["patch"],"additionalProperties":false}`)
	writeTool = define("write",
		`Write a whole file, new or replacing the old one. Directories are made.`,
		`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},"required":["path","content"],"additionalProperties":false}`)
	searchTool = define("search",
		`Search the files of a tree for a regular expression (RE2 syntax). Ignored and binary files are left out. glob limits the files, such as *.go or src/**/*.ts.`,
		`{"type":"object","properties":{"pattern":{"type":"string"},"path":{"type":"string"},"glob":{"type":"string"},"ignore_case":{"type":"boolean"},"files_only":{"type":"boolean","description":"names and counts only"},"limit":{"type":"integer"}},"required":["pattern"],"additionalProperties":false}`)
	listTool = define("list",
		`List a directory, to a depth of 1 to 5.`,
		`{"type":"object","properties":{"path":{"type":"string"},"depth":{"type":"integer"}},"additionalProperties":false}`)
	pictureTool = define("picture",
		`Open a page in the sandbox's browser and look at it. Returns a picture, the console's errors and warnings, and the requests that failed. Services of the sandbox are at http://127.0.0.1:PORT.`,
		`{"type":"object","properties":{"url":{"type":"string"},"width":{"type":"integer"},"height":{"type":"integer"},"full_page":{"type":"boolean"},"wait_for":{"type":"string","description":"CSS selector to wait for"}},"required":["url"],"additionalProperties":false}`)
	finishTool = define("finish",
		`End the work. verdict is done (the task is carried out and you saw it work), cannot (you could not; say what is missing), or answer (a question was asked and nothing had to be changed). summary is for the person who asked: what was wrong, what you changed and why, how you know. claims are single statements that the evidence should show, such as "TestTotal fails without the change".`,
		`{"type":"object","properties":{"verdict":{"type":"string","enum":["done","cannot","answer"]},"summary":{"type":"string"},"claims":{"type":"array","items":{"type":"string"}}},"required":["verdict","summary"],"additionalProperties":false}`)
)
