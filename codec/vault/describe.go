package vault

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/echoseal/echoseal/keyset"
)

// Describe tells the state of each key, for which it reads the key, when the token
// expires, for which it looks the token up, and where each setting came from. A token that may not read a key can unwrap
// with it all the same; the description's Err then says what is missing.
//
// It warns of versions in use that the key refuses, or will once min_decryption_version
// is raised; in use is what this service has unwrapped. It also warns of a token that
// should have been renewed, and of settings and keys that are less safe than they look.
func (s *Service) Describe(ctx context.Context) ([]keyset.KeyDescription, error) {
	token, tokenWarnings := s.lookUpToken(ctx)
	descriptions := make([]keyset.KeyDescription, len(s.keys))
	for i, k := range s.keys {
		d := keyset.KeyDescription{Service: k.service(), CredentialExpires: token.Data.ExpireTime, Settings: describeSettings(s.settings)}
		if info, err := s.read(ctx, k); err != nil {
			d.Err = s.fail(opRead, k, nil, err)
		} else {
			d.Version = strconv.FormatInt(info.Data.LatestVersion, 10)
			d.Warnings = k.warnings(info)
		}
		d.Warnings = slices.Concat(d.Warnings, tokenWarnings, settingWarnings(s.settings))
		descriptions[i] = d
	}
	return descriptions, nil
}

// A keyAnswer is that of reading a key.
type keyAnswer struct {
	Data struct {
		Name                 string `json:"name"`
		LatestVersion        int64  `json:"latest_version"`
		MinDecryptionVersion int64  `json:"min_decryption_version"`
		Derived              bool   `json:"derived"`
		SoftDeleted          bool   `json:"soft_deleted"`
		Exportable           bool   `json:"exportable"`
		PlaintextBackup      bool   `json:"allow_plaintext_backup"`
		DeletionAllowed      bool   `json:"deletion_allowed"`
	} `json:"data"`
}

// read reads k, and notes whether it is derived.
func (s *Service) read(ctx context.Context, k *key) (keyAnswer, error) {
	var answer keyAnswer
	raw, err := s.client.do(ctx, request{path: k.path(opRead.endpoint)})
	if err == nil {
		err = decode(raw, &answer)
	}
	switch data := answer.Data; {
	case err != nil:
	case data.Name != k.name || data.LatestVersion < 1:
		err = unusable(failedMount, "the response does not describe a Transit key %s", k.name)
	case data.SoftDeleted:
		err = unusable(failedDeleted, "the key is soft-deleted")
	default:
		k.derived.Store(data.Derived)
	}
	return answer, err
}

// warnings returns what will become a problem with a key.
func (k *key) warnings(info keyAnswer) []string {
	var all []string
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	data, path := info.Data, k.path(opRead.endpoint)
	switch oldest := k.oldest.Load(); {
	case oldest != 0 && oldest < data.MinDecryptionVersion:
		warn("version %d of %s is in use here, and min_decryption_version %d refuses it: the next start fails; lower it, wrap anew, and raise it again", oldest, path, data.MinDecryptionVersion)
	case oldest != 0 && oldest < data.LatestVersion:
		warn("version %d of %s is in use here, and %d is the newest: wrap anew before min_decryption_version is raised above %d", oldest, path, data.LatestVersion, oldest)
	case oldest == 0 && data.MinDecryptionVersion > 1:
		warn("%s refuses what was wrapped under a version below %d (min_decryption_version)", path, data.MinDecryptionVersion)
	}
	if data.Exportable || data.PlaintextBackup {
		warn("%s can be exported or backed up in plaintext, so that the key-encryption key can leave the server; this cannot be undone: use another key", path)
	}
	if data.DeletionAllowed {
		warn("%s can be deleted, and with it all that it has wrapped: set deletion_allowed=false", path)
	}
	return all
}

// A tokenAnswer is that of looking up the token. The token itself is in it, and not
// read.
type tokenAnswer struct {
	Data struct {
		ExpireTime  time.Time `json:"expire_time"` // null for never
		TTL         int64     `json:"ttl"`         // seconds that are left
		CreationTTL int64     `json:"creation_ttl"`
		Uses        int64     `json:"num_uses"` // that are left; 0 for any number
		Policies    []string  `json:"policies"`
	} `json:"data"`
}

// lookUpToken tells of the token what the server says, and what to warn of. That it
// cannot be looked up is not told: if it is no good the keys say so.
func (s *Service) lookUpToken(ctx context.Context) (tokenAnswer, []string) {
	var answer tokenAnswer
	var all []string
	if text := s.client.token.warning(); text != "" {
		all = append(all, text)
	}
	raw, err := s.client.do(ctx, request{path: lookupSelf})
	if err == nil {
		err = decode(raw, &answer)
	}
	if err != nil {
		return tokenAnswer{}, all
	}
	data, name := answer.Data, s.client.token.name
	// Whoever renews a token does it when a third of its time is left, if not sooner.
	if 4*data.TTL < data.CreationTTL {
		all = append(all, fmt.Sprintf("the token (%s) expires in %v, at %s: look after what renews or replaces it; data keys that are loaded stay",
			name, time.Duration(data.TTL)*time.Second, data.ExpireTime.UTC().Format(time.RFC3339)))
	}
	if data.Uses > 0 {
		all = append(all, fmt.Sprintf("the token (%s) can be used %d more times", name, data.Uses))
	}
	if slices.Contains(data.Policies, "root") {
		all = append(all, fmt.Sprintf("the token (%s) is a root token: use one with a policy for this key alone", name))
	}
	return answer, all
}
