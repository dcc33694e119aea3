package tokenizer

import (
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// dateLayouts maps the directives of strftime to Go's.
var dateLayouts = map[byte]string{'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'j': "002"}

// strftimeNow is the template's function of that name at a given time.
func strftimeNow(now time.Time) jinja.Value {
	return jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		if len(args) != 1 || !args[0].IsString() {
			return jinja.Undefined(), fmt.Errorf("strftime_now: want a format")
		}
		return jinja.NewString(strftime(args[0].AsString(), now)), nil
	})
}

// strftime writes a time. Directives that it does not know stay as they are.
func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		if layout, ok := dateLayouts[format[i]]; ok {
			b.WriteString(t.Format(layout))
			continue
		}
		if format[i] != '%' {
			b.WriteByte('%')
		}
		b.WriteByte(format[i])
	}
	return b.String()
}
