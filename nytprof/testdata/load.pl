# load.pl FILE: what Devel::NYTProf::Data makes of FILE, as JSON.
# Its warnings are left to standard error.
use strict;
use warnings;
use JSON::PP;
use Devel::NYTProf::Data;

my $profile = Devel::NYTProf::Data->new({ filename => $ARGV[0], quiet => 1 });

sub text { my $s = "$_[0]"; utf8::decode($s) unless utf8::is_utf8($s); $s }

my (@files, @subs);
for my $file ($profile->all_fileinfos) {
    my $times = $profile->{fid_line_time}[ $file->fid ] || [];
    my %lines;
    for my $line (0 .. $#$times) {
        my $t = $times->[$line] or next;
        $lines{$line} = { seconds => 0 + $t->[0], count => 0 + $t->[1] } if @$t;
    }
    push @files, {
        fid    => 0 + $file->fid,
        name   => text($file->filename),
        source => scalar(grep { defined } @{ $profile->{fid_srclines}[ $file->fid ] || [] }),
        lines  => \%lines,
    };
}
for my $sub (values %{ $profile->{sub_subinfo} }) {
    push @subs, {
        name    => text($sub->subname),
        package => text($sub->package),
        fid     => 0 + ($sub->fid || 0),
        first   => 0 + ($sub->first_line || 0),
        last    => 0 + ($sub->last_line || 0),
        calls   => 0 + $sub->calls,
        incl    => 0 + $sub->incl_time,
        excl    => 0 + $sub->excl_time,
    };
}
print JSON::PP->new->utf8->canonical->encode({
    attributes => { map { $_ => text($profile->attributes->{$_}) } keys %{ $profile->attributes } },
    files      => \@files,
    subs       => \@subs,
});
