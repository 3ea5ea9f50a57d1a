package vault_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// fakeEngines are the KV engines of the fake, with their versions.
var fakeEngines = map[string]string{"secret": "2", "team/kv": "2", "kv1": "1"}

const mountsPath = "sys/internal/ui/mounts/"

func isKVPath(path string) bool {
	mount, _ := splitKV(strings.TrimPrefix(path, mountsPath))
	return mount != "" || strings.HasPrefix(path, mountsPath)
}

func splitKV(path string) (mount, rest string) {
	for mount := range fakeEngines {
		if rest, ok := strings.CutPrefix(path, mount+"/"); ok {
			return mount, rest
		}
	}
	return "", path
}

const fakeCreated = "2026-12-02T03:00:00.123456789Z"

// fakeNumber returns a version as the store has it.
func fakeNumber(number int) string { return fmt.Sprintf("%d@%s", number, fakeCreated) }

// A fakeSecret has versions; the number of one is its index plus 1.
type fakeSecret struct {
	versions []fakeVersion
	raw      json.RawMessage // in an engine of version 1
}

type fakeVersion struct {
	created   string // fakeCreated if it is empty
	data      map[string]any
	deleted   string // when
	destroyed bool
}

func (v fakeVersion) metadata(number int) map[string]any {
	return map[string]any{"created_time": cmp.Or(v.created, fakeCreated), "custom_metadata": nil, "deletion_time": v.deleted, "destroyed": v.destroyed, "version": number}
}

// serveKV answers as KV does, in version 1 and 2, as far as the store calls it.
func (f *fake) serveKV(w http.ResponseWriter, r fakeRequest, raw []byte) {
	if path, ok := strings.CutPrefix(r.path, mountsPath); ok {
		mount, _ := splitKV(path + "/")
		if mount == "" {
			refuse(w, http.StatusForbidden, fmt.Sprintf("preflight capability check returned 403, please ensure client's policies grant access to path %q", path+"/"))
			return
		}
		reply(w, map[string]any{"type": "kv", "path": mount + "/", "options": map[string]string{"version": fakeEngines[mount]}})
		return
	}
	mount, path := splitKV(r.path)
	if r.method == http.MethodDelete {
		f.serveDelete(w, mount, path)
		return
	}
	name, ok := strings.CutPrefix(path, "data/")
	if fakeEngines[mount] == "1" {
		f.serveKV1(w, r, raw)
		return
	}
	if !ok {
		refuse(w, http.StatusNotFound)
		return
	}
	s := f.kv[mount+"/"+name]
	if r.method == http.MethodGet {
		switch n := s.len(); {
		case n == 0:
			refuse(w, http.StatusNotFound)
		case s.versions[n-1].deleted != "" || s.versions[n-1].destroyed:
			replyMissing(w, map[string]any{"data": nil, "metadata": s.versions[n-1].metadata(n)})
		default:
			reply(w, map[string]any{"data": s.versions[n-1].data, "metadata": s.versions[n-1].metadata(n)})
		}
		return
	}
	var body struct {
		Data    map[string]any
		Options struct{ CAS *int }
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		refuse(w, http.StatusBadRequest, "failed to parse JSON input: "+err.Error())
		return
	}
	if body.Options.CAS != nil && *body.Options.CAS != s.len() {
		refuse(w, http.StatusBadRequest, "check-and-set parameter did not match the current version")
		return
	}
	if s == nil {
		s = &fakeSecret{}
		f.kv[mount+"/"+name] = s
	}
	s.versions = append(s.versions, fakeVersion{data: body.Data})
	reply(w, s.versions[len(s.versions)-1].metadata(len(s.versions)))
}

func (f *fake) serveDelete(w http.ResponseWriter, mount, path string) {
	if name, ok := strings.CutPrefix(path, "metadata/"); ok {
		delete(f.kv, mount+"/"+name)
	} else if s := f.kv[mount+"/"+strings.TrimPrefix(path, "data/")]; s.len() > 0 {
		s.versions[s.len()-1].deleted = time.Now().UTC().Format(time.RFC3339Nano)
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *fake) serveKV1(w http.ResponseWriter, r fakeRequest, raw []byte) {
	if r.method != http.MethodGet {
		f.kv[r.path] = &fakeSecret{raw: raw}
		w.WriteHeader(http.StatusNoContent)
		return
	}
	s := f.kv[r.path]
	if s == nil {
		refuse(w, http.StatusNotFound)
		return
	}
	var data map[string]any
	_ = json.Unmarshal(s.raw, &data)
	reply(w, data)
}

func (s *fakeSecret) len() int {
	if s == nil {
		return 0
	}
	return len(s.versions)
}

// deleteSecret deletes the newest version, as bao kv delete does.
func (f *fake) deleteSecret(path string, destroy bool) {
	f.locked(func() {
		last := &f.kv[path].versions[f.kv[path].len()-1]
		last.destroyed = destroy
		if !destroy {
			last.deleted = time.Date(2026, 12, 2, 3, 10, 17, 123456789, time.UTC).Format(time.RFC3339Nano)
		}
	})
}
