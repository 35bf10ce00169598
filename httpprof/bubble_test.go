package httpprof

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// TestHandlerInBubble asks for a profile within a synctest bubble.
func TestHandlerInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?seconds=1", nil))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "synctest") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
