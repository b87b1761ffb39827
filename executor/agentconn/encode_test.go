package agentconn

import "strings"

func contains(text, part string) bool { return strings.Contains(text, part) }
