package zpages

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"time"

	"github.com/golang/glog"
)

// parts are the templates "style" and "refresh", which every page has.
//
//go:embed parts.html
var parts string

// Template parses a page. It may use the templates "style" (for its head) and "refresh" (at its end: the content of <main> is
// exchanged every 3 s), and the functions clock (time of day, UTC), since (of two times, the later first) and those in more.
// It panics on a fault, as template.Must does: pages are part of the program.
func Template(name, text string, more template.FuncMap) *template.Template {
	functions := template.FuncMap{
		"clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"since": func(now, then time.Time) string { return now.Sub(then).Truncate(time.Second).String() },
	}
	maps.Copy(functions, more)
	page := template.New(name).Funcs(functions)
	template.Must(page.Parse(parts))
	return template.Must(page.Parse(text))
}

// Page answers with a page. Nothing on it may come from elsewhere, and nothing may frame it.
func Page(w http.ResponseWriter, page *template.Template, data any) {
	var text bytes.Buffer
	if err := page.Execute(&text, data); err != nil {
		http.Error(w, "make page: "+err.Error(), http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	answer(w, text.Bytes())
}

// JSON answers with a value, indented for people.
func JSON(w http.ResponseWriter, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		http.Error(w, "encode state: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer(w, append(text, '\n'))
}

func answer(w http.ResponseWriter, text []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	write(w, text)
}

func write(w http.ResponseWriter, text []byte) {
	if _, err := w.Write(text); err != nil {
		glog.V(1).Infof("answer page err=%v", err) // who asked has gone
	}
}

// Refuse answers with what went wrong and what to do.
func Refuse(w http.ResponseWriter, code int, format string, args ...any) {
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, fmt.Sprintf(format, args...), code)
}
