#!/usr/bin/perl
# Docs freshness: links lead somewhere, every make target is explained, and nothing that is committed
# names the machine that it was written on.
use strict;
use warnings;
my @bad;
my @docs = ('README.md', glob('docs/*.md docs/*/*.md'));
for my $file (@docs) {
    open my $in, '<', $file or do { push @bad, "$file: $!"; next };
    my ($dir) = $file =~ m{^(.*/)?};
    $dir //= '';
    while (<$in>) {
        while (/\]\(([^)#\s]+)(?:#[^)]*)?\)/g) {
            my $to = $1;
            next if $to =~ m{^https?:};
            push @bad, "$file:$.: link to $to leads nowhere" unless -e "$dir$to";
        }
        while (m{`((?:src|tests|docs|profiles|templates|include)/[\w./-]+)`}g) {
            push @bad, "$file:$.: there is no $1" unless -e $1;
        }
    }
}
my $make = do { local (@ARGV, $/) = 'Makefile'; <> };
for my $t ($make =~ /^\.PHONY: (.*)$/mg) {
    for my $target (split ' ', $t) {
        next if $target =~ /^(deps-demo|fuzz-build|print-.*|lib|uninstall|clean|unit|help)$/;
        push @bad, "Makefile: 'make help' does not explain '$target'"
          unless $make =~ /echo '[^']*\bmake\s+\Q$target\E\b/ || $target eq 'all';
    }
}
print "1..1\n";
print "# $_\n" for @bad;
print @bad ? "not ok 1 - docs\n" : "ok 1 - docs: " . scalar(@docs) . " files\n";
exit(@bad ? 1 : 0);
