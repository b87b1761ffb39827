// Mesopod keeps the rules: main may do all of this.
package main

import (
	"context"
	"flag"
	"log"
	"os"

	_ "broken.example/cmd/internal/cli"
	_ "broken.example/internal/controlplane"
)

func main() {
	flag.Parse()
	if context.Background().Err() != nil {
		log.Fatal("no")
	}
	os.Exit(1)
}
