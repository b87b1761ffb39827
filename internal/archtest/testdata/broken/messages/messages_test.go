package messages

import (
	_ "broken.example/internal/pki" // want: floor
	_ "os"
)
