package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"drydock/internal/core"
)

// ReadFile reads at most limit bytes (0: as much as MaxRead) of a regular file
// from an offset on. The FileInfo tells the whole size.
func (c *Client) ReadFile(ctx context.Context, path string, offset, limit int64) ([]byte, FileInfo, error) {
	const op = "guest.read"
	if limit <= 0 || limit > MaxRead {
		limit = MaxRead
	}
	q := url.Values{"path": {path}, "offset": {strconv.FormatInt(offset, 10)}, "limit": {strconv.FormatInt(limit, 10)}}
	resp, err := c.send(ctx, request{op: op, method: http.MethodGet, path: "/v1/file", query: q, again: true})
	if err != nil {
		return nil, FileInfo{}, err
	}
	defer resp.Body.Close()
	var info FileInfo
	if err := json.Unmarshal([]byte(resp.Header.Get("Drydock-File")), &info); err != nil {
		return nil, FileInfo{}, core.E(op, core.Internal, err, "the sandbox does not describe %s", path)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return nil, FileInfo{}, connErr(ctx, op, err)
	}
	return data, info, nil
}

// WriteFile replaces a file atomically and makes its parents. Mode 0 keeps the
// mode of the file that is there, or means 0644.
// What is new belongs to the owner of the directory it is made in.
func (c *Client) WriteFile(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error {
	return c.WriteFileAs(ctx, "", path, mode, r)
}

// WriteFileAs is WriteFile where what is new, directories too, belongs to a
// user, named as in Command. A file that is there keeps its owner.
func (c *Client) WriteFileAs(ctx context.Context, user, path string, mode fs.FileMode, r io.Reader) error {
	const op = "guest.write"
	q := url.Values{"path": {path}, "mode": {strconv.FormatInt(int64(mode.Perm()), 10)}}
	if user != "" {
		q.Set("user", user)
	}
	resp, err := c.send(ctx, request{op: op, method: http.MethodPut, path: "/v1/file", query: q, body: r, again: true})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readJSON(ctx, op, resp.Body, nil)
}

// Stat describes a file; a link is not followed.
func (c *Client) Stat(ctx context.Context, path string) (FileInfo, error) {
	var out FileInfo
	err := c.post(ctx, "guest.stat", "/v1/stat", PathRequest{Path: path}, &out)
	return out, err
}

// List describes what is in a directory.
func (c *Client) List(ctx context.Context, dir string) ([]FileInfo, error) {
	var out []FileInfo
	err := c.post(ctx, "guest.list", "/v1/list", PathRequest{Path: dir}, &out)
	return out, err
}

// Walk describes what is below a directory.
func (c *Client) Walk(ctx context.Context, opts WalkOptions) (WalkResult, error) {
	var out WalkResult
	err := c.post(ctx, "guest.walk", "/v1/walk", opts, &out)
	return out, err
}

// Remove removes a file, or with recursive a directory and all below it.
// Nothing there is no error.
func (c *Client) Remove(ctx context.Context, path string, recursive bool) error {
	return c.post(ctx, "guest.remove", "/v1/remove", PathRequest{Path: path, Recursive: recursive}, nil)
}

// Mkdir makes a directory and its parents; it may be there already.
func (c *Client) Mkdir(ctx context.Context, path string, mode fs.FileMode) error {
	return c.post(ctx, "guest.mkdir", "/v1/mkdir", PathRequest{Path: path, Mode: mode}, nil)
}

// Rename moves a file or a directory within one file system.
func (c *Client) Rename(ctx context.Context, from, to string) error {
	return c.call(ctx, "guest.rename", http.MethodPost, "/v1/rename", nil, PathRequest{Path: from, To: to}, nil, false)
}

// Symlink makes a link at path that points to target.
func (c *Client) Symlink(ctx context.Context, target, path string) error {
	return c.call(ctx, "guest.symlink", http.MethodPost, "/v1/symlink", nil, PathRequest{Path: path, To: target}, nil, false)
}

// TarIn unpacks an archive below dir, which is made if it is not there.
// Entries that would leave dir are refused.
func (c *Client) TarIn(ctx context.Context, dir string, r io.Reader) error {
	const op = "guest.tar_in"
	resp, err := c.send(ctx, request{op: op, method: http.MethodPut, path: "/v1/tar", query: url.Values{"dir": {dir}}, body: r})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readJSON(ctx, op, resp.Body, nil)
}

// TarOut writes an archive to w. Its content comes from the sandbox and is
// hostile: unpack it with care. Bounding its size is up to w.
func (c *Client) TarOut(ctx context.Context, opts TarOptions, w io.Writer) error {
	const op = "guest.tar_out"
	raw, err := json.Marshal(opts)
	if err != nil {
		return core.E(op, core.Internal, err, "")
	}
	resp, err := c.send(ctx, request{op: op, method: http.MethodPost, path: "/v1/tar", body: bytes.NewReader(raw), again: true})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return connErr(ctx, op, err)
	}
	return nil
}

// Search looks for a pattern in files.
func (c *Client) Search(ctx context.Context, in SearchRequest) (SearchResult, error) {
	var out SearchResult
	err := c.post(ctx, "guest.search", "/v1/search", in, &out)
	return out, err
}
