package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/mesopod/mesopod/internal/errdefs"
)

// Version is the version of the format. A file of another version is not read: its records may mean something else.
const Version = 1

// Owner says whose ledger a file is: an executor's life in one Mesos container. Another container's tasks have ended.
type Owner struct {
	Framework string `json:"framework"`
	Agent     string `json:"agent"`
	Executor  string `json:"executor"`
	Container string `json:"container"`
}

// header is the first line of a file.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Owner
}

const formatName = "mesopod-ledger"

// A file is lines: the header, then lists of records that count together or not at all. Each line is the CRC-32C of
// what follows in eight hexadecimal digits, a space, and JSON, which holds no line feed; then a line feed. So the end
// of a line is found without trust in its content, and a torn write at the end of the file takes that one line alone.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumDigits = 8

func appendLine(buffer []byte, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return buffer, fmt.Errorf("encode ledger record: %w: %w", errdefs.ErrInvalid, err)
	}
	buffer = fmt.Appendf(buffer, "%0*x ", checksumDigits, crc32.Checksum(text, castagnoli))
	return append(append(buffer, text...), '\n'), nil
}

// AppendHeader appends the line that a file begins with.
func AppendHeader(buffer []byte, owner Owner) ([]byte, error) {
	return appendLine(buffer, header{Format: formatName, Version: Version, Owner: owner})
}

// AppendRecords appends the records of one change as one line. The error is errdefs.ErrInvalid.
func AppendRecords(buffer []byte, records ...Record) ([]byte, error) {
	return appendLine(buffer, records)
}

// Damage is what could not be read of a file.
type Damage struct {
	// Torn is the number of bytes of an unfinished write at the end. It was never acted on.
	Torn int
	// Lost tells of each damaged line where it is, how long, and what is wrong. What it held was acted on.
	Lost []error
}

// Err tells all that was lost, nil if nothing was acted on that is missing. It is errdefs.ErrLost.
func (d Damage) Err() error {
	if len(d.Lost) == 0 {
		return nil
	}
	return fmt.Errorf("%d damaged lines: %w: %w", len(d.Lost), errdefs.ErrLost, errors.Join(d.Lost...))
}

// errVersion is a header of another version.
var errVersion = errors.New("written by another version")

// Decode reads a file. What can be read is returned, the rest is told by Damage. Of a file of another version nothing
// is read. An empty file, or one whose header was not finished, has no owner, no record and no loss: nothing was ever
// acted on.
func Decode(data []byte) (Owner, []Record, Damage) {
	var (
		owner   Owner
		records []Record
		damage  Damage
	)
	for line, at := 1, 0; at < len(data); line++ {
		text, _, whole := bytes.Cut(data[at:], []byte{'\n'})
		if !whole {
			damage.Torn = len(text)
			break
		}
		var err error
		if line == 1 {
			if owner, err = decodeHeader(text); errors.Is(err, errVersion) {
				damage.Lost = append(damage.Lost, fmt.Errorf("all %d bytes: %w", len(data), err))
				return owner, nil, damage
			}
		} else {
			var list []Record
			if err = decodeLine(text, &list); err == nil {
				records = append(records, list...)
			}
		}
		if err != nil {
			damage.Lost = append(damage.Lost, fmt.Errorf("line %d, %d bytes from byte %d: %w", line, len(text), at, err))
		}
		at += len(text) + 1
	}
	return owner, records, damage
}

func decodeHeader(text []byte) (Owner, error) {
	var h header
	if err := decodeLine(text, &h); err != nil {
		return Owner{}, err
	}
	if h.Format != formatName || h.Version != Version {
		return h.Owner, fmt.Errorf("format %q version %d, this executor reads version %d: %w", h.Format, h.Version, Version, errVersion)
	}
	return h.Owner, nil
}

func decodeLine(text []byte, value any) error {
	if len(text) <= checksumDigits || text[checksumDigits] != ' ' {
		return errors.New("it has no checksum")
	}
	want, body := string(text[:checksumDigits]), text[checksumDigits+1:]
	if got := fmt.Sprintf("%0*x", checksumDigits, crc32.Checksum(body, castagnoli)); got != want {
		return fmt.Errorf("checksum is %s, the line says %q", got, want)
	}
	if err := json.Unmarshal(body, value); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
