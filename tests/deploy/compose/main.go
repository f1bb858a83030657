// Loads a compose file as Docker Compose does, and prints it as JSON: variables of its folder's `.env` filled in, anchors resolved.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithEnvFiles(), cli.WithDotEnv)
	if err == nil {
		var project any
		if project, err = options.LoadProject(context.Background()); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(project)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
