package vectors

import (
	"encoding/json"
	"testing"
)

func TestTextKeepsLoneSurrogates(t *testing.T) {
	for in, want := range map[string]string{
		`""`:                       "",
		`"plain \"quoted\" \\ \n"`: "plain \"quoted\" \\ \n",
		`"\u00e9\u20ac"`:           "é€",
		`"\ud83d\ude00"`:           "😀",
		`"\ud800"`:                 "\xed\xa0\x80",
		`"a\udc00b\ud800"`:         "a\xed\xb0\x80b\xed\xa0\x80",
		`"\ud800\ud83d\ude00"`:     "\xed\xa0\x80😀",
		`"\\ud800"`:                `\ud800`,
		`"é\ud800😀"`:               "é\xed\xa0\x80😀",
	} {
		var got Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", in, got, err, want)
		}
	}
}
