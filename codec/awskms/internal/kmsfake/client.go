package kmsfake

import (
	"errors"
	"net/http"
	"net/http/httptest"
)

// Do answers a request in this goroutine, without a network: the fake is an HTTP client
// of the SDK, too, for tests in which the time is testing/synctest's.
func (s *Service) Do(r *http.Request) (response *http.Response, err error) {
	defer func() {
		if cause := recover(); cause == http.ErrAbortHandler { //nolint:errorlint // a panic's value, compared as net/http does
			response, err = nil, errors.New("connection reset by peer")
		} else if cause != nil {
			panic(cause)
		}
	}()
	recorder := httptest.NewRecorder()
	s.ServeHTTP(recorder, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return recorder.Result(), nil
}
