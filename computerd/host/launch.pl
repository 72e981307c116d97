# Becomes the user, then the user's shell. Started as root with nothing of the daemon's environment; no module is loaded, so that it starts fast
# and nothing outside this text runs as root. Its arguments and answers: see launcher.py. What matters is checked, and nothing has a way back.
my ($numbers, $mode, $owner, $cgroup, $umask, $limits, $oom, $locked, $ids, $folder, $home, $user, $shell, $path, $lang, $term, @command) = @ARGV;
my ($execve, $close_range, $setsid, $sigaction, $sigprocmask, $prlimit, $prctl, $keyctl, $capset,
    $setgroups, $getgroups, $setresgid, $getresgid, $setresuid, $getresuid) = map { 0 + $_ } split /,/, $numbers;
my $nonce = $ENV{NONCE};
sub fail { my ($stage, $number) = @_; syswrite STDOUT, "\0$nonce!$stage " . (0 + $number) . "\n"; exit 125 }
sub put { my ($file, $text) = @_; sysopen TO, $file, 1 and defined(syswrite TO, $text) and close TO }    # 1 is O_WRONLY

length pack('L!', 0) == 8 or fail 'machine', 0;    # the numbers are those of the 64-bit kernel interface
syscall $close_range, 3, 0xffffffff, 0;            # nothing is there; an old kernel doesn't know the call
$cgroup eq '' or put($cgroup, $$) or fail 'cgroup', $!;
$mode eq 'tty' or syscall($setsid) == $$ or fail 'session', $!;
$mode eq 'take' and (ioctl STDIN, 0x540e, 0 or fail 'session', $!);    # TIOCSCTTY
if ($owner ne '') {
    my ($uid, $gid) = split /:/, $owner;
    my @line = $mode eq 'pipes' ? (*STDIN, *STDOUT, *STDERR) : *STDIN;    # without it the user can't open /dev/stderr
    chown(0 + $uid, 0 + $gid, @line) == @line or fail 'tty', $!;
}
my $default = "\0" x 32;
syscall $sigaction, $_, $default, 0, 8 for grep { $_ != 9 && $_ != 19 } 1 .. 64;    # SIGKILL and SIGSTOP can't be set
my $empty = "\0" x 8;
syscall($sigprocmask, 2, $empty, 0, 8) == 0 or fail 'signals', $!;
umask oct $umask;
for (split / /, $limits) {
    my ($what, $soft, $hard) = split /[=:]/;
    my $pair = pack 'QQ', $soft, $hard;
    syscall($prlimit, 0, 0 + $what, $pair, 0) == 0 or fail 'limits', $!;
}
setpriority 0, 0, 0 if getpriority 0, 0;
put '/proc/self/oom_score_adj', $oom if $oom ne '';
syscall $keyctl, 1, 0 if $ids ne '';               # a session keyring of its own: in the daemon's, users would find each other's keys
$locked eq '' or syscall($prctl, 38, 1, 0, 0, 0) == 0 or fail 'locked', $!;

if ($ids ne '') {
    my ($uid, $gid, @groups) = map { 0 + $_ } split /[:,]/, $ids;
    my $list = pack 'L*', @groups;
    syscall($setgroups, scalar @groups, $list) == 0 or fail 'groups', $!;
    syscall($setresgid, $gid, $gid, $gid) == 0 or fail 'gid', $!;
    syscall($setresuid, $uid, $uid, $uid) == 0 or fail 'uid', $!;
    syscall($prctl, 4, 0, 0, 0, 0) == 0 or fail 'dumpable', $!;
    my ($version, $none) = (pack('LL', 0x20080522, 0), "\0" x 24);
    syscall($capset, $version, $none) == 0 or fail 'capabilities', $!;
    my ($real, $effective, $saved, $read) = ("\0" x 4, "\0" x 4, "\0" x 4, "\0" x (4 * @groups + 4));
    syscall($getresuid, $real, $effective, $saved) == 0 && "$real$effective$saved" eq pack('L', $uid) x 3 or fail 'check-uid', 0;
    syscall($getresgid, $real, $effective, $saved) == 0 && "$real$effective$saved" eq pack('L', $gid) x 3 or fail 'check-gid', 0;
    my $count = syscall $getgroups, @groups + 1, $read;
    $count == @groups && join(' ', sort unpack 'L*', substr $read, 0, 4 * $count) eq join(' ', sort @groups) or fail 'check-groups', 0;
    for my $call ($setresuid, $setresgid) { syscall($call, 0, 0, 0) == -1 && syscall($call, -1, 0, -1) == -1 or fail 'check-return', 0 }
}

chdir $folder or fail 'folder', $!;
syswrite(STDOUT, "\0$nonce.") == length($nonce) + 2 or fail 'marker', $!;

sub become {
    my ($program) = @_;
    my $name = substr $program, 1 + rindex $program, '/';
    my @arguments = @command ? ($name, '-c', @command) : ("-$name");
    my @variables = ("HOME=$home", "USER=$user", "LOGNAME=$user", "SHELL=$program", "PATH=$path", "LANG=$lang", "TERM=$term");
    syscall $execve, $program, pack('p*', @arguments, undef), pack('p*', @variables, undef);
    return 0 + $!;
}
my ($program, $number) = ($shell, 2);
$number = become $shell if $shell =~ m{^/};
($program, $number) = ('/bin/sh', become '/bin/sh') if grep { $number == $_ } 2, 13, 20, 40;    # ENOENT, EACCES, ENOTDIR, ELOOP
$! = $number;
syswrite STDERR, "$program: $!\n";
exit($number == 2 ? 127 : 126);
