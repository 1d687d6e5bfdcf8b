/*
 * The sh programs that run on nodes (programs.c says how they work together). They are given to
 * the login shell as: exec /bin/sh -c PROGRAM clusterd ARGUMENTS. Secrets only travel on stdin.
 */
#pragma once

/* ID ENV_BYTES INPUT_BYTES; stdin, once it says "send": env, then script. Answers with a status. */
extern const char run_start_program[];
/* ID OFFSET MAX; a status, then the log's bytes from OFFSET, at most MAX. */
extern const char run_poll_program[];
/* ID; ends what goes on and answers with the status afterwards. */
extern const char run_kill_program[];
/* PATH SHA256 MODE BYTES; stdin, once it says "send": the file. Answers same, send, done. */
extern const char upload_program[];
/* MARKER COMMAND NODEPROBE SHA256 LENGTHS; what a sweep asks (sweep.c). LENGTHS: of the variables
 * and the text of each script, "12 340 12 95"; stdin: all of them. */
extern const char sweep_program[];
