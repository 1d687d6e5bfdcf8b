#!/usr/bin/perl
# The arrows between rooms: which room may #include which, and where third-party headers may be.
# The table is docs/architecture.md's; a new room gets a row in both.
use strict;
use warnings;

my %may = (
    base    => '',
    text    => 'base',
    model   => 'base text',
    checks  => 'base text',
    loop    => 'base',
    store   => 'base loop model text',
    bmc     => 'base loop text',
    netboot => 'base loop text',
    remote  => 'base loop',
    fetch   => 'base loop',
    engine  => 'base text model checks loop store bmc netboot remote',
    api     => 'base text model loop store engine netboot bmc',
    daemon  => 'base text model checks loop store bmc netboot remote fetch engine api',
    client  => 'base text',
    ctl     => 'base text client model checks',
    probe   => 'base text',
    sim     => 'base text loop bmc remote fetch model',
);
my %pinned = (    # header pattern => rooms
    'uv\.h'            => 'loop',
    'sqlite3\.h'       => 'store',
    'libssh2.*\.h'     => 'remote',
    'microhttpd\.h'    => 'api sim',
    'curl/.*'          => 'client fetch',
    'libssh/.*'        => 'sim',
    'yaml\.h'          => 'text',
    'openssl/.*'       => 'base bmc sim',
    'infiniband/.*'    => 'probe',
    'uthash\.h'        => 'base',
);
my ($n, @bad) = (0);
for my $file (glob('src/*/*.[ch] include/*.h')) {
    my ($room) = $file =~ m{^src/([^/]+)/};
    $room //= 'client';
    $n++;
    push @bad, "$file: room '$room' is not in the table" unless exists $may{$room};
    open my $in, '<', $file or die "$file: $!";
    my $lines = 0;
    while (<$in>) {
        $lines++;
        if (/^\s*#\s*include\s+"([^"]+)"/) {
            my $header = $1;
            next if $header eq 'clusterd.h' && $room =~ /^(client|ctl)$/;
            my ($to) = $header =~ m{^([^/]+)/};
            push @bad, "$file:$.: \"$header\" is not written as \"room/file.h\"" and next unless $to;
            next if $to eq $room;
            push @bad, "$file:$.: $room may not include $to"
              unless grep { $_ eq $to } split ' ', $may{$room} // '';
        } elsif (/^\s*#\s*include\s+<([^>]+)>/) {
            my $header = $1;
            for my $p (keys %pinned) {
                next unless $header =~ /^$p$/;
                push @bad, "$file:$.: <$header> belongs to: $pinned{$p}"
                  unless grep { $_ eq $room } split ' ', $pinned{$p};
            }
        }
    }
    push @bad, "$file: $lines lines; 800 is the ceiling" if $lines > 800;
    if ($file =~ /\.h$/) {
        seek $in, 0, 0;
        my $head = <$in>;
        push @bad, "$file: a header opens with a comment on what it is for" unless $head =~ m{^/\*};
    }
}
my $doc = do { local (@ARGV, $/) = 'docs/architecture.md'; <> };
for my $room (sort keys %may) {
    push @bad, "docs/architecture.md: no row for room '$room' that says '$may{$room}'"
      unless $doc =~ /^\|\s*`?$room`?\s*\|[^|]*\|\s*\Q$may{$room}\E\s*\|/m;
}
for my $dir (glob('src/*')) {
    (my $room = $dir) =~ s{^src/}{};
    push @bad, "$dir: a room without a row" unless exists $may{$room} || $room eq 'ramdisk';
}
print "1..1\n";
print "# $_\n" for @bad;
print @bad ? "not ok 1 - layers\n" : "ok 1 - layers: $n files\n";
exit(@bad ? 1 : 0);
