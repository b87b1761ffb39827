package mesossim

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxRead is the most that one read gives, as in Mesos.
const maxRead = 16 * 4096

// resolve finds what a path of the files API means: a real path in a sandbox, or the virtual one
// /frameworks/ID/executors/ID/runs/... A symbolic link that leads out of the sandboxes is not followed.
func (a *agentShell) resolve(path string) (string, int) {
	if path == "" {
		return "", http.StatusBadRequest
	}
	root := filepath.Join(a.work(), "slaves")
	if strings.HasPrefix(path, "/frameworks/") {
		agents, err := filepath.Glob(filepath.Join(root, "*"))
		if err != nil || len(agents) == 0 {
			return "", http.StatusNotFound
		}
		path = filepath.Join(agents[len(agents)-1], path)
	}
	path = filepath.Clean(path)
	if !within(root, path) {
		return "", http.StatusNotFound
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", http.StatusNotFound
	}
	if resolved, err := filepath.EvalSymlinks(root); err != nil || !within(resolved, real) {
		return "", http.StatusBadRequest
	}
	return real, http.StatusOK
}

func (a *agentShell) open(w http.ResponseWriter, r *http.Request) (string, bool) {
	path, code := a.resolve(r.URL.Query().Get("path"))
	if code != http.StatusOK {
		w.WriteHeader(code)
	}
	return path, code == http.StatusOK
}

func (a *agentShell) serveBrowse(w http.ResponseWriter, r *http.Request) {
	dir, ok := a.open(w, r)
	if !ok {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	shown := filepath.Clean(r.URL.Query().Get("path"))
	list := []page{}
	for _, entry := range entries {
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		links, uid, gid := uint64(1), "0", "0"
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			links, uid, gid = uint64(stat.Nlink), strconv.Itoa(int(stat.Uid)), strconv.Itoa(int(stat.Gid))
		}
		mode := info.Mode().String()
		if info.IsDir() {
			mode = "d" + mode[1:]
		}
		list = append(list, page{"path": filepath.Join(shown, entry.Name()), "size": info.Size(), "mode": mode, "nlink": links,
			"mtime": info.ModTime().Unix(), "uid": uid, "gid": gid})
	}
	answerJSON(w, r, list)
}

func (a *agentShell) serveRead(w http.ResponseWriter, r *http.Request) {
	path, ok := a.open(w, r)
	if !ok {
		return
	}
	number := func(name string, missing int64) int64 {
		if text := r.URL.Query().Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				ok = false
			}
			return n
		}
		return missing
	}
	offset, length := number("offset", -1), number("length", -1)
	file, err := os.Open(path)
	if err != nil || !ok {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil || info.IsDir() {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if offset < 0 {
		answerJSON(w, r, page{"offset": info.Size(), "data": ""})
		return
	}
	if length < 0 || length > maxRead {
		length = maxRead
	}
	data, err := io.ReadAll(io.NewSectionReader(file, offset, length))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answerJSON(w, r, page{"offset": offset, "data": string(data)})
}

func (a *agentShell) serveDownload(w http.ResponseWriter, r *http.Request) {
	if path, ok := a.open(w, r); ok {
		w.Header().Set("Content-Disposition", "attachment; filename="+strconv.Quote(filepath.Base(path)))
		http.ServeFile(w, r, path)
	}
}
