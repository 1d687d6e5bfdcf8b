/*
 * Worker threads for calls that block: name look-up, hashing of an image, reading a big file.
 *
 * run(user) executes on a thread and may touch nothing but what `user` owns; done(user) follows on
 * the loop. A job cannot be stopped once it runs, so it is not an op: owners that go away leave
 * `user` to done.
 */
#pragma once

#include "loop/loop.h"

int work_submit(struct loop *loop, void (*run)(void *user), void (*done)(void *user), void *user,
                struct err *err);
