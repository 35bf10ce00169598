package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"
)

// bashWords replaces a function of the package bash-completion that cobra's script needs.
// Without that package it splits the line into words at spaces.
const bashWords = `
__gotach_init_completion()
{
    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<< "$line"
    [[ $line == *' ' ]] && words+=('')
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
}
`

func newCompletion(e *env) *cobra.Command {
	write := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error {
			if err := root.GenBashCompletionV2(w, true); err != nil {
				return err
			}
			_, err := io.WriteString(w, bashWords)
			return err
		},
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a script for completion in your shell",
		Long:  `Print a shell script that completes gotach's commands, flags and formats when you press Tab.`,
		Example: `  source <(gotach completion bash)                                  # this shell
  gotach completion bash > /etc/bash_completion.d/gotach            # every new shell
  gotach completion zsh > "${fpath[1]}/_gotach"
  gotach completion fish > ~/.config/fish/completions/gotach.fish`,
		ValidArgs:             shells,
		Args:                  oneShell(shells),
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return write[args[0]](cmd.Root(), e.stdout)
		},
	}
}

func oneShell(shells []string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 && slices.Contains(shells, args[0]) {
			return nil
		}
		return usagef("completion: name one shell: bash, zsh, fish or powershell")
	}
}
